#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""abi.py LIBRARY [--cxx COMPILER] [--update] [--list FILE]: headers and shared library have the ABI of the last release.

Within a minor version programs need not be compiled again (docs/versioning.md). abi.txt has, of the last release: its minor
version, the symbols of what public headers declare, size and alignment of every public class, and the order of its virtual
functions, all as g++ has them on this kind of processor. Another minor version may have another ABI. At a release,
--update writes the list; 0.1.0 has none. Offsets of members are not compared: a class whose members trade places keeps its size.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import check

ROOT = check.headers.ROOT
LIST = Path(__file__).resolve().parent / "abi.txt"


def output_of(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def version():
    """Minor version and processor, of which one ABI is promised."""
    number = re.search(r"^project\(ebb VERSION (\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text(), re.M).group(1)
    return f"version {number} {output_of('uname', '-m').strip()}"


def symbols(library):
    """Functions and variables that headers declare; what a header defines inline is in the program that includes it."""
    public = {name.removeprefix("c++ ") for name in check.of_headers()}
    rows = [line.split() for line in output_of("readelf", "-W", "--dyn-syms", library).splitlines()]
    strong = [row[7].split("@")[0] for row in rows if len(row) >= 8 and row[4] == "GLOBAL" and row[6] not in ("UND", "ABS")]
    for symbol, text in zip(strong, output_of("c++filt", input="\n".join(strong)).splitlines()):
        path = re.match(r"(?:(?:vtable|typeinfo(?: name)?) for )?((?:\w+::)*(?:operator(?:\(\)|\[\]|[^\w\s(]+| ?\w+)|~?\w+))", text)
        name = re.sub(r"::optim::", "::", path.group(1)) if path else text  # an inline namespace, without which names are written
        scope, _, last = name.rpartition("::")
        if name in public or (scope in public and last.lstrip("~") == scope.rpartition("::")[2]):
            yield f"symbol {symbol}"


def classes(compiler):
    """Sizes, alignments and tables of virtual functions, which g++ writes down for all headers at once."""
    headers = sorted((ROOT / "include").rglob("*.h"))
    with tempfile.TemporaryDirectory() as folder:
        source, dump = Path(folder, "all.cc"), Path(folder, "classes.txt")
        source.write_text("".join(f"#include <{header.relative_to(ROOT / 'include')}>\n" for header in headers))
        output_of(compiler, "-std=c++20", "-fsyntax-only", f"-I{ROOT / 'include'}", f"-fdump-lang-class={dump}", str(source))
        for block in dump.read_text().split("\n\n"):
            kind, _, name = block.partition("\n")[0].rpartition(" ")
            if not re.match(r"ebb::(?!.*(detail::|<))", name):
                continue
            if kind == "Class":
                yield f"class {name} {re.search('size=.*', block).group(0)}"
            elif kind == "Vtable for":
                functions = re.findall(r"^\d+ +\(int \(\*\)\(\.\.\.\)\)([\w:~]+)$", block, re.M)[1:]
                yield " ".join(["table", name, *(function.rpartition("::")[2] for function in functions)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--cxx", default="g++")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--list", type=Path, default=LIST)
    options = parser.parse_args()
    released, *promised = options.list.read_text().splitlines() if options.list.exists() else [None]
    if not options.update and released != version():
        print(f"The last release was {released}, this is {version()}" if released else "No ABI has been promised yet")
        return 0
    there = sorted({*symbols(options.library), *classes(options.cxx)})
    if options.update:
        options.list.write_text("".join(line + "\n" for line in [version(), *there]))
        print(f"{len(there)} lines")
        return 0
    gone = sorted(set(promised) - set(there))
    for line in gone:
        print(f"{line} is gone or has changed: programs compiled with the last release would break")
    if not gone:
        print(f"All {len(promised)} lines of the ABI are there, {len(there) - len(promised)} more since the last release")
    return bool(gone)


if __name__ == "__main__":
    sys.exit(main())
