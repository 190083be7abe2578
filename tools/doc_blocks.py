#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes a test program of the C++ blocks of the docs: doc_blocks.py OUT.cc PAGE.md...

Every ```cpp block is compiled and run. An indented text right below a block is what it prints. A line that is an
expression with a comment, `f(x)   // [1. 2.]`, is printed and compared with the comment. What a block needs and the reader
does not stands before it in a comment that pages do not show:

    <!-- cpp                      <!-- cpp global          <!-- cpp continues -->
    Tensor x = randn({3});        struct Network {...};
    -->                           -->

The first is run before the block, the second stands at namespace scope, and a block that continues sees what the block
before it declared. Blocks that begin with struct, template or a function stand at namespace scope by themselves; a block
with #include and main is a program.
"""

import re
import sys
from pathlib import Path

HIDDEN = re.compile(r"<!-- cpp(?P<kind> global| continues)?(?P<code>.*?)-->", re.S)
TOP_LEVEL = re.compile(r"^(struct |template |#include|(Tensor|double|int|void|auto) \w+\([^()]*\) \{)", re.M)
EXPRESSION = re.compile(r"^(?P<code>\S.*[^;{},\s])\s+// (?P<value>.*)$")


def parts(page):
    """(kind, line, code, output) of the page: hidden code, and blocks with what they print."""
    text = page.read_text()
    lines = text.split("\n")
    found = []
    for m in HIDDEN.finditer(text):
        kind = (m["kind"] or " before").strip()
        found.append((text.count("\n", 0, m.start()) + 1, kind, m["code"].strip("\n"), None))
    i = 0
    while i < len(lines):
        if lines[i] != "```cpp":
            i += 1
            continue
        end = lines.index("```", i)
        j = end + 1
        while j < len(lines) and not lines[j].strip():
            j += 1
        output = []
        while j < len(lines) and (lines[j].startswith("    ") or (output and not lines[j].strip())):
            output.append(lines[j][4:])
            j += 1
        code = lines[i + 1 : end]
        prints = any("std::cout" in line for line in code)
        found.append((i + 2, "block", "\n".join(code), "\n".join(output).strip("\n") if prints and output else None))
        i = end + 1
    return sorted(found, key=lambda part: part[0])


def with_expressions(code):
    """Lines that are expressions become comparisons of what they print with their comments."""
    out, lines, k = [], code.split("\n"), 0
    while k < len(lines):
        m = EXPRESSION.match(lines[k])
        k += 1
        if not m:
            out.append(lines[k - 1])
            continue
        value = [m["value"]]
        while k < len(lines) and re.match(r"^\s+// ", lines[k]):
            value.append(lines[k].split("// ", 1)[1])
            k += 1
        out.append(f'expect_prints({m["code"]}, R"({chr(10).join(value)})");')
    return "\n".join(out)


def program(page):
    name = re.sub(r"\W", "_", page.stem)
    scopes, global_code, before = [], [], []
    for line, kind, code, output in parts(page):
        where = f'#line {line} "{page.name}"\n'
        if kind == "global":
            global_code.append(where + code)
        elif kind == "before":
            before.append(where + code)
        elif kind == "continues":
            before.append(None)
        elif "int main()" in code:
            body = re.sub(r"#include.*\n|using namespace ebb;\n", "", code).replace("int main()", f"int main_{line}()")
            global_code.append(where + body)
            scopes.append([line, [f"EXPECT_EQ(main_{line}(), 0);"]])
        elif TOP_LEVEL.match(code) and "#include" not in code:
            global_code.append(where + code)
        else:
            code = re.sub(r"#include.*\n?|using namespace ebb;\n?", "", code)
            check = f'\nprinted.expect(R"doc({output})doc");' if output is not None else "\nprinted.drop();"
            body = [c for c in before if c is not None] + [where + with_expressions(code) + check]
            if None in before and scopes:
                scopes[-1][1] += body
            else:
                scopes.append([line, body])
            before = []
    out = [f"namespace ebb::doc_{name} {{"] + global_code
    for line, body in scopes:
        out.append(f"TEST(Docs, {name}_{line}) {{\nPrinted printed;\n" + "\n".join(body) + "\n}")
    return "\n".join(out) + f"\n}}  // namespace ebb::doc_{name}\n"


def main():
    out, *pages = map(Path, sys.argv[1:])
    text = '#include "docs/doc_block.h"\n\n' + "\n".join(program(p) for p in pages)
    if not out.exists() or out.read_text() != text:
        out.write_text(text)


if __name__ == "__main__":
    main()
