# SPDX-License-Identifier: MIT
"""Which lines of src/ the tests ran: coverage.py BUILD [--missing src/io/npy.cc ...] [--least 90]

BUILD was compiled with --coverage and its tests have run. gcov tells how often each line of each object file was executed; a
line of a header or of a file that is compiled for several SIMD targets counts if any of them ran it. --missing prints the
lines of these files that nothing ran.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Code that a machine without these cannot run; it is counted, and also reported separately.
APART = {
    "src/cpu/gemm/bf16_amx.cc": "the instructions of AMX",
    "src/cpu/gemm/bf16_vdpbf16ps.cc": "the instructions of AVX512-BF16",
    "src/cpu/gemm/bf16_panels-inl.h": "the instructions of AVX512-BF16",
    "src/cuda/library/cublaslt.cc": "cuBLASLt",
    "src/cuda/library/nccl.cc": "NCCL",
    "src/cuda/runtime/driver.cc": "NVIDIA's driver and NVRTC",
    "src/cuda/runtime/open_library.cc": "NVIDIA's driver and NVRTC",
}


def lines_of(note: pathlib.Path) -> list[tuple[str, int, int]]:
    """(file below src, line, times) of one object file; files without a .gcda beside them were never run."""
    done = subprocess.run(["gcov", "--json-format", "--stdout", str(note)], capture_output=True, cwd=note.parent, check=False)
    found = []
    for text in done.stdout.splitlines():
        for file in json.loads(text)["files"]:
            path = pathlib.Path(os.path.normpath(pathlib.Path(json.loads(text)["current_working_directory"]) / file["file"]))
            if path.is_relative_to(ROOT / "src"):
                name = str(path.relative_to(ROOT))
                found += [(name, line["line_number"], line["count"]) for line in file["lines"]]
    return found


def measure(build: pathlib.Path) -> dict[str, dict[int, int]]:
    notes = [*build.glob("CMakeFiles/*/src/**/*.gcno"), *build.glob("tests/CMakeFiles/*/**/*.gcno")]
    if not notes:
        sys.exit(f"{build}: no .gcno files: it was not built with --coverage")
    times: dict[str, dict[int, int]] = collections.defaultdict(lambda: collections.defaultdict(int))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lines_of, notes):
            for name, line, count in found:
                times[name][line] += count
    return times


def ranges(lines: list[int]) -> str:
    """1, 2, 3, 7 as 1-3 7"""
    parts: list[list[int]] = []
    for line in sorted(lines):
        if parts and parts[-1][1] == line - 1:
            parts[-1][1] = line
        else:
            parts.append([line, line])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def share(times: list[int]) -> str:
    ran = sum(count > 0 for count in times)
    return f"{ran:7} of {len(times):6} lines {100 * ran / len(times):6.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--missing", nargs="+", default=[])
    parser.add_argument("--least", type=float, default=0)
    options = parser.parse_args()
    times = measure(options.build.resolve())
    for name in options.missing:
        print(name, ranges([line for line, count in times.get(name, {}).items() if count == 0]))
    folders: dict[str, list[int]] = collections.defaultdict(list)
    for name, lines in times.items():
        folders[str(pathlib.Path(name).parent)] += lines.values()
    least = sorted(times, key=lambda name: -sum(count == 0 for count in times[name].values()))[:20]
    print("files with the most lines that no test ran:")
    for name in least:
        print(f"  {name:40} {share(list(times[name].values()))}")
    for folder in sorted(folders):
        print(f"{folder:42} {share(folders[folder])}")
    everything = [count for lines in times.values() for count in lines.values()]
    print(f"{'src':42} {share(everything)}")
    print("of these, what needs hardware or libraries of its own:")
    for name, reason in APART.items():
        if name in times:
            print(f"  {name:40} {share(list(times[name].values()))}  {reason}")
    others = [count for name, lines in times.items() if name not in APART for count in lines.values()]
    print(f"{'src without them':42} {share(others)}")
    if 100 * sum(count > 0 for count in everything) / len(everything) < options.least:
        sys.exit(f"less than {options.least} % of the lines of src were run")


if __name__ == "__main__":
    main()
