// SPDX-License-Identifier: MIT
#pragma once

namespace ebb {

bool is_letter(char32_t c);  // \p{L}
bool is_number(char32_t c);  // \p{N}

// \s: White_Space
inline bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

}  // namespace ebb
