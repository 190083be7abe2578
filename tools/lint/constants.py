#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts constants in the code that decides how things are computed, outside of the models that hold tuning constants.

A constant is `constexpr` with a number of its own as its value. Those that are not for tuning are listed in constants.txt:
numbers of hardware, of formats and of other libraries' interfaces, those that decide the order of a sum, and sizes that a
loop or a kernel is compiled with. Prints all others and exits with 1 if there are any. Also prints how many initialised members
each model has (docs/design.md, "In numbers").
"""
import fnmatch
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["src/cpu/gemm", "src/cpu/window", "src/cpu/sweep", "src/cpu/fused", "src/cuda", "src/schedule"]
MODELS = {"src/cpu/model/cpu_model.h", "src/cuda/plan/gpu_model.h", "src/schedule/schedule_model.h",
          "src/schedule/strip_model.h", "src/schedule/strip_model.cc"}
STRUCTS = {"GpuModel": "src/cuda/plan/gpu_model.h", "CpuModel": "src/cpu/model/cpu_model.h",
           "ScheduleModel": "src/schedule/schedule_model.h", "StripModel": "src/schedule/strip_model.h"}
LISTED = pathlib.Path(__file__).with_name("constants.txt")
DECLARATION = re.compile(r"^\s*(?:inline |static )*constexpr (?:std::)?(?:u?int\d*(?:_t)?|[ui]\d+|size_t|float|double|f32|f64|auto)"
                         r" (k[A-Z]\w* = [^;]*);", re.MULTILINE)
NAME = re.compile(r"\b(k[A-Z]\w*) = ([^,;]*)")


def constants(path):
    """Names of the constants in a file that have a number as their value, rather than other constants alone."""
    for declaration in DECLARATION.finditer(path.read_text()):
        for name, value in NAME.findall(declaration.group(1)):
            if re.search(r"(?<![\w.])\d", value):
                yield name


def members(struct):
    """How many initialised members it has."""
    text = re.sub(r"//[^\n]*", "", (ROOT / STRUCTS[struct]).read_text())
    text = text[text.index(f"struct {struct} {{"):]
    return len(re.findall(r"\b\w+(?:\[\w*\])* = ", text[:text.index("\n};")]))


def listed():
    """(pattern of files, names) of constants that are not for tuning."""
    for line in LISTED.read_text().splitlines():
        if line and not line.startswith("#"):
            place, _, _ = line.partition("  ")
            pattern, _, names = place.rpartition(":")
            yield pattern, names


def is_listed(rule, where, name):
    pattern, names = rule
    return fnmatch.fnmatch(where, pattern) and (names == "*" or name in names.split(","))


def main():
    rules, used, outside, count = list(listed()), set(), [], 0
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            where = str(path.relative_to(ROOT))
            if path.suffix not in {".h", ".cc"} or where in MODELS:
                continue
            for name in constants(path):
                count += 1
                matching = [rule for rule in rules if is_listed(rule, where, name)]
                used.update(matching)
                if not matching:
                    outside.append(f"{where}: {name}")
    unused = [rule for rule in rules if rule not in used]
    for line in outside:
        print(f"{line} belongs in a model (see CONTRIBUTING.md), or in tools/lint/constants.txt with its reason")
    for pattern, names in unused:
        print(f"tools/lint/constants.txt: there is no {names} in {pattern}")
    print(f"{count} constants outside of the models, {len(outside)} of them for tuning; in the models: "
          + ", ".join(f"{struct} {members(struct)}" for struct in STRUCTS))
    return 1 if outside or unused else 0


if __name__ == "__main__":
    sys.exit(main())
