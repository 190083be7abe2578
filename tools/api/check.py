#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check.py [--program FILE] [--package] [--update] [--list FILE]: no public name of the last release has gone.

public_names.txt lists them, one per line: `c++ NAME` for what the headers in include/ebb declare, `command NAME OPTION` for the
program's commands and options (--program), `python NAME` for the package (--package, with the package on PYTHONPATH). Names that
were added since are welcome; one that is missing is an error. docs/versioning.md says how a name may go. At a release, --update
writes the list anew.
"""

import argparse
import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import make_reference as headers  # noqa: E402

KEYWORDS = {"if", "for", "while", "return", "sizeof", "decltype", "noexcept", "alignas", "requires", "static_assert"}


def names_of(declaration):
    """The names that a function, variables (`Tensor x, y = {};`) or an alias declare; operators by their symbol."""
    plain = re.sub(r"\[\[.*?\]\]", "", headers.without_strings(re.sub(r"//.*", "", declaration))).strip()
    plain = re.sub(r"^template <.*?>\s+(?=\w)", "", plain, flags=re.S)
    if match := re.match(r"(?:using|namespace) (\w+)\b", plain):
        return [match.group(1)]
    if plain.startswith(("friend class", "friend struct", "static_assert", "using ")):
        return []
    if match := re.search(r"operator\s*([^\s\w(]+|\(\)|\w+)\s*\(", plain):
        return ["operator" + match.group(1)]
    if re.match(r"[^={;]*\w\(", plain):  # a function
        return [name for name in re.findall(r"(~?\w+)\(", plain)[:1] if name not in KEYWORDS and not name.startswith("~")]
    while (flat := re.sub(r"<[^<>]*>|\{[^{}]*\}|\([^()]*\)", "", plain)) != plain:  # commas that separate no names
        plain = flat
    return [words[-1] for part in plain.rstrip("; ").split(",") if (words := re.findall(r"\w+", re.split(r" : |=", part)[0]))]


def declared(lines, scope):
    """Names that the lines of a header declare, with their scope; types with their public members."""
    for statement in headers.statements(lines):
        text = "\n".join(statement)
        mark = statement[0].strip()
        if not mark or mark.startswith("//") or mark in ("public:", "private:", "protected:"):
            continue
        if not headers.is_type(text):
            yield from (f"{scope}::{name}" for name in names_of(text))
            continue
        kind, name = re.search(r"\b(enum class|enum|struct|class|union) (?:\[\[.*?\]\] )?(?:alignas\(.*?\) )?(\w+)", text).groups()
        yield f"{scope}::{name}"
        inside = headers.without_strings(text)
        inside = text[inside.index("{") + 1 : inside.rindex("}")]
        if kind.startswith("enum"):
            for word in re.sub(r"//.*|=[^,]*", "", inside).split(","):
                if word.strip():
                    yield f"{scope}::{name}::{word.strip()}"
        else:
            members = [line for line in inside.split("\n") if line.strip()]
            yield from declared(members, f"{scope}::{name}")


def of_headers():
    found = set()
    for header in sorted((headers.ROOT / "include" / "ebb").rglob("*.h")):
        scope, code = "ebb", False
        block = []
        for line in headers.section_of(header) + ["```"]:
            if match := re.match(r"#### namespace ([\w:]+)", line):
                scope = match.group(1)
            elif line.startswith("```"):
                if code:
                    found.update(declared(block, scope))
                code, block = line == "```cpp", []
            elif code:
                block.append(line)
    return {f"c++ {name}" for name in found}


def of_program(program):
    """Commands and options, from the words that shells complete."""
    text = subprocess.run([program, "completion", "fish"], check=True, capture_output=True, text=True).stdout
    found = {f"command {word}" for word in re.findall(r"__fish_use_subcommand -a (\S+)", text)}
    for command, rest in re.findall(r"__fish_seen_subcommand_from (\S+)' (.*)", text):
        found.update(f"command {command} --{word}" for word in re.findall(r"(?:^| )-l (\S+)", rest))
    return found


def of_package():
    """Names of the public modules, and members that public classes define themselves, once each.

    `ebb.compat` is not among them: its names are promised where users find them, in `ebb` and `ebb.nn`.
    """
    import ebb

    modules = [ebb] + [importlib.import_module(m.name) for m in pkgutil.walk_packages(ebb.__path__, "ebb.")
                       if not any(part.startswith("_") for part in m.name.split(".")) 
                       and m.name not in ("ebb.torch", "ebb.compat")]
    found, classes = set(), set()
    for module in modules:
        for name in getattr(module, "__all__", None) or dir(module):
            value = getattr(module, name, None)
            if name.startswith("_") or (inspect.ismodule(value) and not value.__name__.startswith("ebb")):
                continue
            if (getattr(value, "__module__", None) or "ebb").split(".")[0] != "ebb":  # imported from elsewhere
                continue
            found.add(f"python {module.__name__}.{name}")
            if inspect.isclass(value) and value not in classes:
                classes.add(value)
                found.update(f"python {module.__name__}.{name}.{member}" for member in vars(value) if not member.startswith("_"))
    # Importing ebb.torch imports PyTorch; its stub has the same names.
    for node in ast.parse((Path(ebb.__file__).parent / "torch" / "__init__.pyi").read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            found.add(f"python ebb.torch.{node.name}")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program")
    parser.add_argument("--package", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--list", type=Path, default=HERE / "public_names.txt")
    options = parser.parse_args()
    there = of_headers()
    kinds = ["c++"]
    if options.program:
        there |= of_program(options.program)
        kinds.append("command")
    if options.package:
        there |= of_package()
        kinds.append("python")
    if options.update:
        if len(kinds) < 3:
            parser.error("--update needs --program and --package, so that the list is whole")
        options.list.write_text("".join(name + "\n" for name in sorted(there)))
        print(f"{len(there)} public names")
        return 0
    promised = {line for line in options.list.read_text().splitlines() if line.split(" ")[0] in kinds}
    gone = sorted(promised - there)
    for name in gone:
        print(f"{name} is gone. It was public in the last release: keep it and deprecate it, as docs/versioning.md says.")
    if not gone:
        print(f"All {len(promised)} public names are there, {len(there - promised)} more since the last release")
    return bool(gone)


if __name__ == "__main__":
    sys.exit(main())
