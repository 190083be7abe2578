#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes docs/reference.md from the public headers: what they declare, with the comments above it.

  tools/make_reference.py            write the page
  tools/make_reference.py --check    say whether it is what the headers say now (exit code 1: it is not)

The headers are written for people, in one layout (clang-format's), so their lines can be read without a C++ parser: a
comment belongs to the declarations right below it, bodies of functions and private members are left out.
"""
import argparse
import difflib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference.md"
INTRODUCTION = """# C++ reference

All declarations in `include/ebb/`, by header; `<ebb/ebb.h>` includes every header. Names are in the namespace `ebb` unless a
heading says otherwise: functions of tensors, losses and optimisers are all called from there (`ebb::sum`, `ebb::mse_loss`,
`ebb::AdamW`, also as `ebb::optim::AdamW`). Names that equal a function's, or that belong to one subject only, are in nested
namespaces: layers in `nn`, files in `io`, whole models in `models`, processes in `distributed`. Functions of one tensor are also
methods: `x.exp().sum(1)`. [losses.md](losses.md) explains each loss.

This page is generated from the headers by `tools/make_reference.py`.
"""
NAMESPACE = re.compile(r"^(?:inline )?namespace ([\w:]*) ?\{(\})?")
RULER = re.compile(r"^// -{4,} (.*?) -{4,}$")


def without_strings(text):
    """The text with the contents of literals and comments blanked: only its braces count."""
    return re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|//.*', lambda m: "_" * len(m.group()), text)


def balance(text):
    plain = without_strings(text)
    return sum(map(plain.count, "({[")) - sum(map(plain.count, ")}]"))


def statements(lines):
    """Groups lines into comments, blank lines and whole declarations."""
    pending = []
    for line in lines:
        if not pending and (not line.strip() or line.strip().startswith("//")):
            yield [line]
            continue
        pending.append(line)
        text = "\n".join(pending)
        ended = re.search(r"[;}]\s*(//.*)?$|^\s*(public|private|protected):$", line)
        if ended and balance(text) == 0:
            yield pending
            pending = []
    if pending:
        yield pending


def body_begins(text):
    """Where a function's body or its list of initialisers begins; -1 for what has none."""
    depth = 0
    plain = without_strings(text)
    for at, c in enumerate(plain):
        if c == "=" and depth == 0 and "operator" not in plain[:at]:
            return -1  # a variable, an alias or a defaulted member
        if c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "{" and depth == 0:
            return at
        elif c == ":" and depth == 0 and plain[at - 1 : at + 2] == " : " and ")" in plain[:at]:
            return at
    return -1


def is_type(text):
    text = re.sub(r"^\s*template <.*?>\s*(?=struct|class)", "", text, flags=re.S)
    return re.match(r"\s*(struct|class|enum|union)\b", text) and "{" in text


def shortened(lines):
    """A declaration without the bodies of its functions and without its private members."""
    text = "\n".join(lines)
    if is_type(text):
        if len(lines) == 1 or re.match(r"\s*enum", text):
            return lines
        out, hidden = [lines[0]], False
        first = 1
        while "{" not in without_strings("\n".join(lines[:first])):
            out.append(lines[first])
            first += 1
        for statement in statements(lines[first:-1]):
            mark = statement[0].strip()
            if mark in ("public:", "private:", "protected:"):
                hidden = mark != "public:"
                if hidden:
                    continue
            if hidden:
                continue
            out += statement if mark.startswith("//") or not mark else shortened(statement)
        while not out[-1].strip() or out[-1].strip().startswith("//"):
            out.pop()
        return out + [lines[-1]]
    at = body_begins(text)
    if at < 0:
        return lines
    comment = re.search(r"\s*//.*$", lines[-1]) if balance(lines[-1]) == 0 and len(lines) == 1 else None
    return (text[:at].rstrip() + ";" + (comment.group() if comment else "")).split("\n")


class Section:
    """The text of one header, as it grows."""

    def __init__(self):
        self.out, self.comment, self.code = [], [], []

    def flush_comment(self):
        if self.comment:
            self.out += ["", *prose(self.comment)]
            self.comment = []

    def flush_code(self):
        if self.code:
            self.out += ["", "```cpp", *self.code, "```"]
            self.code = []

    def flush(self):
        if self.code:
            self.flush_code()
        self.flush_comment()


def prose(comment):
    """Comment lines as Markdown: indented ones are formulas or code."""
    lines = [re.sub(r"^\s*// ?", "", line) for line in comment]
    if not any(re.match(r" {2,}", line) for line in lines):
        return lines
    return ["```text", *lines, "```"]


def section_of(header):
    section, hidden, names = Section(), 0, []
    lines, continued = [], False
    for line in header.read_text().split("\n"):
        skip = continued or line.startswith("#") or "clang-format" in line or "SPDX-License" in line
        continued = (continued or line.startswith("#")) and line.endswith("\\")
        if not skip:
            lines.append(line.rstrip())
    body = []
    for line in lines:  # namespaces do not indent: their lines can be taken out
        opening = NAMESPACE.match(line)
        if opening:
            if opening.group(2):
                continue
            names.append("" if line.startswith("inline") else opening.group(1))  # inline: part of what is around it
            hidden += "detail" in names[-1]
            if not hidden and names[-1] not in ("", "ebb"):
                body += ["", f"// ---- namespace {'::'.join(n for n in names if n)} ----", ""]
        elif line.startswith("}  // namespace") or (line == "}" and names and not balance("\n".join(body))):
            was_hidden, closed = hidden, names.pop()
            hidden -= "detail" in closed
            body += ["", "// ---- namespace ebb ----", ""] if closed and names and not was_hidden else [""]
        elif not hidden:
            body.append(line)
    for statement in statements(body):
        text = statement[0].strip()
        ruler = RULER.match(text)
        if not text:
            section.flush()
        elif ruler:
            section.flush()
            section.out += ["", "#### " + ruler.group(1)]
        elif text.startswith("//"):
            section.flush_code()
            section.comment.append(statement[0])
        elif re.match(r"(class|struct) \w+;|template <> struct dtype_of_type|template <class T> struct \w+;", text):
            section.comment = []
        else:
            section.flush_comment()
            section.code += shortened(statement)
    section.flush()
    while section.out and (not section.out[-1] or section.out[-1].startswith("#### ")):
        section.out.pop()  # a namespace with nothing after it
    return section.out


def page():
    sections = {}
    for header in sorted((ROOT / "include" / "ebb").rglob("*.h")):
        body = section_of(header)
        if body:
            sections[f"ebb/{header.relative_to(ROOT / 'include' / 'ebb')}"] = body
    text = INTRODUCTION + "\n## Contents\n\n| header | declares |\n|---|---|\n"
    for name, body in sections.items():
        text += f"| [{name}](#{anchor(name)}) | {', '.join(f'`{n}`' for n in declared(body))} |\n"
    for name, body in sections.items():
        text += f"\n## {name}\n" + "\n".join(body) + "\n"
    return text


def anchor(heading):
    """The address of a heading, as GitHub and the site make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def declared(body):
    """The names of the types and functions of a section, without options and gradients, which belong to a function."""
    found = []
    inside = False
    for line in body:
        inside = not inside if line.startswith("```") else inside
        if not inside:
            continue
        match = re.match(r"(?:struct|class|enum class) (\w+)|(?!using|template|return)[A-Za-z_][\w:<>,&* ]*?[ &*>](\w+)\(", line)
        name = match and (match.group(1) or match.group(2))
        hidden = not name or name.endswith(("Options", "Gradients")) or name.startswith("operator")
        if not hidden and name not in found:
            found.append(name)
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    wanted = page()
    if not arguments.parse_args().check:
        PAGE.write_text(wanted)
        return 0
    found = PAGE.read_text() if PAGE.exists() else ""
    if found == wanted:
        return 0
    difference = difflib.unified_diff(found.split("\n"), wanted.split("\n"), "docs/reference.md", "the headers", n=1)
    print("\n".join(list(difference)[:40]))
    print("docs/reference.md is not what the headers say: run tools/make_reference.py and commit the page")
    return 1


if __name__ == "__main__":
    sys.exit(main())
