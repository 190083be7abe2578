# SPDX-License-Identifier: MIT
"""symbols_test.py [--module FILE] [--library FILE]: what the dynamic symbol tables say. The Python module shows its entry alone
and libebb.so the names of namespace ebb alone; both take libstdc++ from the shared library of the process."""

import argparse
import re
import subprocess
import sys

# Functions and variables of namespace ebb, with their type information, guards and thread-local wrappers.
OF_EBB = re.compile(r"_Z(N|NK|TIN|TSN|TVN|THN|TWN|ZN|ZNK|GVN|GVZN|GVZNK)3ebb")


def readelf(*words):
    return subprocess.run(["readelf", "-W", *words], capture_output=True, text=True, check=True).stdout


def symbols(file):
    """(binding, section, name without its version) of every dynamic symbol."""
    for line in readelf("--dyn-syms", file).splitlines():
        words = line.split()
        if len(words) >= 8 and words[0].rstrip(":").isdigit():
            yield words[4], words[6], words[7].split("@")[0]


def complaints(file, shown):
    defined = [(binding, name) for binding, section, name in symbols(file) if section not in ("UND", "ABS")]
    wanted = [name for _, section, name in symbols(file) if section == "UND"]
    others = sorted({name for _, name in defined if not shown(name)})
    if others:
        yield f"shows {len(others)} names that are not its own, {', '.join(others[:3])}"
    if not any(shown(name) for _, name in defined):
        yield "does not show what it should"
    if "libstdc++.so.6" not in readelf("-d", file):
        yield "does not load libstdc++.so.6"
    if not any(name.startswith("_ZNSt") for name in wanted):
        yield "has the C++ library inside"
    if any("regex" in name for name in [*wanted, *(name for _, name in defined)]):
        yield "uses std::regex"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--module")
    parser.add_argument("--library")
    options = parser.parse_args()
    found = []
    if options.module:
        found += [f"{options.module} {c}" for c in complaints(options.module, lambda name: name == "PyInit__core")]
        unique = [name for binding, section, name in symbols(options.module) if binding == "UNIQUE" and section != "UND"]
        found += [f"{options.module} has {name}, of which a process can have one only" for name in unique[:3]]
    if options.library:
        found += [f"{options.library} {c}" for c in complaints(options.library, OF_EBB.match)]
    print("\n".join(found) or "The symbol tables show what they should")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
