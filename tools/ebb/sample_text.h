// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>

namespace ebb::program {

// Tales by the sea, about `length` characters of them: sentences of a small grammar, a text that a small network can
// learn within a minute and that needs no download. A function of its arguments.
std::string make_tales(std::int64_t length, std::uint64_t seed);

}  // namespace ebb::program
