# SPDX-License-Identifier: MIT
"""Writes the comments beside the declarations of the public headers as a C++ table of docstrings.

    header_docs.py OUTPUT HEADER...

What stands above a group of declarations belongs to each of them, what stands behind one to that one alone.
"""

import re
import sys
from pathlib import Path

DECLARATION = re.compile(
    r"^(?!using|return|struct|class|enum|template|typedef|inline|constexpr|#)[A-Za-z_][\w:<>,&* ]*?[ &*>](\w+)\("
)


def documented(text):
    """(name, doc) of every function declared at namespace scope."""
    above, behind, name = [], [], None
    group_has_begun = False  # a comment after a declaration begins a new group
    depth = 0  # of braces: members of structs are not functions
    for line in text.splitlines():
        code, _, comment = line.partition("//")
        comment = comment.strip()
        if not line.strip():
            above = []
        elif not code.strip() and depth == 0 and name is None:
            if group_has_begun:
                above, group_has_begun = [], False
            if not comment.startswith("----"):
                above.append(comment)
            continue
        if depth == 0 and name is None:
            match = DECLARATION.match(code)
            if match:
                name, behind = match.group(1), []
        if name is not None:
            if comment:
                behind.append(comment)
            if code.rstrip().endswith((";", "{", "}")):
                yield name, " ".join(above + behind).strip()
                name, group_has_begun = None, True
        if not code.startswith(("namespace", "inline namespace", "}  ")):
            depth = max(0, depth + code.count("{") - code.count("}"))


SENTENCES = Path(__file__).with_name("sentences.txt")
OF_THE_RESULT = re.compile(r"\b(\w+)_backward\(const Tensor& grad, const Tensor& y[,)]")


def sentences():
    """What is said about functions that the headers only declare."""
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def is_sentence(doc):
    """A remark behind a declaration is not: "0 at 0", "of x and src"."""
    return bool(doc) and doc[0].isupper() and doc.rstrip().endswith(".")


def as_sentence(remark):
    word = remark.split()[0]
    remark = word.capitalize() + remark[len(word) :] if word.isalpha() and word.islower() and len(word) > 1 else remark
    return remark if remark.endswith(".") else remark + "."


def table(headers):
    docs, declared, of_the_result = {}, [], set()
    for header in headers:
        text = Path(header).read_text(encoding="utf-8")
        of_the_result |= set(OF_THE_RESULT.findall(text)) - {"atan2"}  # whose y is an operand
        for name, doc in documented(text):
            declared.append(name)
            if doc:
                docs.setdefault(name, doc)
    said = sentences()
    for name in declared:
        base = name.removesuffix("_backward")
        if base != name and not is_sentence(docs.get(name, "")):
            said.setdefault(name, f"What {base} passes back: the cotangents of its operands from that of its result, grad.")
    for name, sentence in said.items():
        docs[name] = f"{sentence} {as_sentence(docs[name])}" if docs.get(name) else sentence
    for base in of_the_result:
        name = base + "_backward"
        docs[name] = f"{docs[name]} y is the result of {base}, not its operand.".strip()
    return docs


def main():
    output, headers = sys.argv[1], sys.argv[2:]
    docs = table(headers)
    lines = ['    {"%s", R"doc(%s)doc"},\n' % (name, docs[name]) for name in sorted(docs)]
    text = "// Made by header_docs.py from the public headers.\n" + "".join(lines)
    target = Path(output)
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
