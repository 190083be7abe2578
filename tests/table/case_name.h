// SPDX-License-Identifier: MIT
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "cases/all_cases.h"

namespace ebb::table {

// The name of a test whose parameter is an index into all_cases().
inline std::string case_name(const ::testing::TestParamInfo<std::size_t>& i) { return all_cases()[i.param].name; }

}  // namespace ebb::table
