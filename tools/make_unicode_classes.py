#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make_unicode_classes.py: writes src/data/unicode_classes.cc, the ranges of Unicode's letters (categories L*) and numbers (N*),
from unicodedata2 (PyPI), 16.0.0 as in Hugging Face's tokenizers, or else from Python's own unicodedata. The file says which version
of Unicode that was."""

import sys
from pathlib import Path

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

OUT = Path(__file__).resolve().parents[1] / "src" / "data" / "unicode_classes.cc"


def ranges(kind):
    found = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code))[0] != kind:
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def table(name, all_ranges):
    lines, line = [f"constexpr Range {name}[] = {{"], "   "
    for first, last in all_ranges:
        item = f" {{0x{first:X}, 0x{last:X}}},"
        if len(line) + len(item) > 120:
            lines.append(line)
            line = "   "
        line += item
    return "\n".join([*lines, line, "};"])


OUT.write_text(f"""// SPDX-License-Identifier: MIT
// Made by tools/make_unicode_classes.py from Unicode {unicodedata.unidata_version}.
#include "data/unicode_classes.h"

#include <algorithm>
#include <iterator>

namespace ebb {{
namespace {{

struct Range {{
  char32_t first, last;
}};

// clang-format off
{table("kLetters", ranges("L"))}

{table("kNumbers", ranges("N"))}
// clang-format on

template <std::size_t n>
bool contains(const Range (&ranges)[n], char32_t c) {{
  const Range* after = std::upper_bound(ranges, ranges + n, c, [](char32_t v, const Range& r) {{ return v < r.first; }});
  return after != ranges && c <= std::prev(after)->last;
}}

}}  // namespace

bool is_letter(char32_t c) {{ return contains(kLetters, c); }}

bool is_number(char32_t c) {{ return contains(kNumbers, c); }}

}}  // namespace ebb
""")
