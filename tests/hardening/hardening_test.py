# SPDX-License-Identifier: MIT
"""hardening_test.py [--readers OBJECT...] [--fortified] FILE...: what readelf says of programs and libraries that were built
with the flags of SECURITY.md, and of the objects of the readers."""

import argparse
import re
import subprocess
import sys


def readelf(*words):
    return subprocess.run(["readelf", "-W", *words], capture_output=True, text=True, check=True).stdout


def complaints_about(file):
    header, segments, dynamic = readelf("-h", file), readelf("-l", file), readelf("-d", file)
    rows = re.findall(r"^ +(\w+) +(?:0x[0-9a-f]+ +){5}([RWE ]{3}) ", segments, re.MULTILINE)
    flags = dict(rows)
    if any(kind == "LOAD" and "W" in access and "E" in access for kind, access in rows):
        yield "has memory that is writable and executable"
    if "E" in flags.get("GNU_STACK", "E"):
        yield "has an executable stack"
    if "GNU_RELRO" not in flags:
        yield "has no RELRO"
    if not re.search(r"\(FLAGS_1\).*\bNOW\b", dynamic):
        yield "binds its symbols late, so that their table stays writable"
    if "(TEXTREL)" in dynamic:
        yield "is written to when it is loaded"
    if "INTERP" in flags and not ("DYN" in header and re.search(r"\(FLAGS_1\).*\bPIE\b", dynamic)):
        yield "is a program that is always loaded at the same address"


def complaints_about_readers(objects, fortified):
    wanted = set(re.findall(r" UND (\w+)", readelf("-s", *objects)))
    if "__stack_chk_fail" not in wanted:
        yield "have no stack protector"
    if fortified and not any(re.fullmatch(r"__\w+_chk", name) for name in wanted):
        yield "have no fortified calls"
    if not any("__glibcxx_assert_fail" in name for name in wanted):
        yield "do not check their indices"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+")
    parser.add_argument("--readers", nargs="*", default=[])
    parser.add_argument("--fortified", action="store_true")
    options = parser.parse_args()
    found = [f"{file} {complaint}" for file in options.files for complaint in complaints_about(file)]
    found += [f"The readers {complaint}" for complaint in complaints_about_readers(options.readers, options.fortified)]
    print("\n".join(found) or f"{len(options.files)} files and {len(options.readers)} objects are hardened")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
