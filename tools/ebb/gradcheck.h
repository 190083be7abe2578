// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

namespace ebb::program {

// The operations and losses that `ebb gradcheck` covers.
std::vector<std::string> gradcheck_names();

}  // namespace ebb::program
