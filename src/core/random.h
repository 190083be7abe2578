// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "ebb/random.h"

namespace ebb {

// Four 32-bit words for elements 4·block .. 4·block+3 of operation `operation`.
void philox_block(std::uint64_t seed, std::uint64_t operation, std::uint64_t block, std::uint32_t words[4]);

}  // namespace ebb
