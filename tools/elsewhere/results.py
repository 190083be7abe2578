#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""results.py RESULTS STEP WORD...: turns the output of one step of there.sh into rows (passed, failed, skipped, seconds),
prints them, and keeps them in RESULTS/rows.tsv; `table` prints all rows so far and writes RESULTS/table.md. Exits with 1 where
something failed. Later rows of the same step and name replace earlier ones of the same tree.

    results.py RESULTS build STATUS SECONDS BUILD [TARGET...]
    results.py RESULTS gpu LOGS       results.py RESULTS script NAME STATUS LOG
    results.py RESULTS sanitize LOGS  results.py RESULTS ctest LOG
    results.py RESULTS aarch64 LOGS
    results.py RESULTS table
"""

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter, namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
Row = namedtuple("Row", "tree step name passed failed skipped seconds verdict why")


def tree():
    """Names this tree by its content: the same here and there, whatever either has committed."""
    digest = hashlib.sha256()
    parts = ["CMakeLists.txt", "Makefile", "cmake", "include", "src", "python", "tests", "tools", "fuzz", "bench", "examples"]
    files = (f for part in parts for f in ([ROOT / part] if (ROOT / part).is_file() else (ROOT / part).rglob("*")))
    for file in sorted(f for f in files if f.is_file() and not re.search(r"__pycache__|\.egg-info|bench/results", str(f))):
        digest.update(f"{file.relative_to(ROOT)}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:12]


def said(*words):
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=60).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def machine(build):
    """What kind of machine this is, one fact per line."""
    cpu = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", cpu) or re.search(r"CPU part\s*: (.*)", cpu)
    has = set(re.search(r"(?:flags|Features)\s*: (.*)", cpu).group(1).split())
    known = "asimd bf16 sve sve2 sse4_2 avx2 avx512f avx512_bf16 avx512_fp16 amx_bf16".split()
    system = re.search(r'PRETTY_NAME="(.*)"', Path("/etc/os-release").read_text())
    library = said("g++", "-print-file-name=libstdc++.so")
    module = next(iter((build / "python/package/ebb").glob("_core*.so")), None)
    needed = re.findall(r"NEEDED.*\[(libstdc.*?)\]", said("readelf", "-d", str(module))) if module else []
    torch = "import torch; print(torch.__version__, 'CUDA', torch.version.cuda)"
    yield f"{os.cpu_count()} cores, {model.group(1) if model else 'unknown'}: {' '.join(f for f in known if f in has)}"
    yield f"{system.group(1) if system else 'unknown system'}, {said('g++', '--version').splitlines()[0]}, {said('cmake', '--version').splitlines()[0]}"
    yield f"libstdc++.so is {os.path.realpath(library) if os.path.exists(library) else 'missing'}; the module {'loads ' + needed[0] if needed else 'has its own copy' if module else 'is not built'}"
    yield "flags of the environment: " + (" ".join(f"{k}={v}" for k, v in os.environ.items() if k.endswith("FLAGS")) or "none")
    yield "GPU: " + (said("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader") or "none")
    yield "PyTorch: " + (said(str(build / "venv/bin/python"), "-c", torch) or "none")


def cases(output, passed):
    """Passed, failed and skipped test cases in the output of a program of GoogleTest or pytest; of anything else, the whole."""
    text = "\n".join(output)
    gtest = [sum(map(int, re.findall(rf"^\[  {word} +\] (\d+) tests?\b", text, re.M))) for word in ("PASSED", "-", "SKIPPED")]
    gtest[1] = len(re.findall(r"^\[  FAILED  \] .* \(\d+ ms\)$", text, re.M))
    pytest = [sum(map(int, re.findall(rf"\b(\d+) {word}\b.* in [\d.]+s", text))) for word in ("passed", "(?:failed|error)", "skipped")]
    counts = [a + b for a, b in zip(gtest, pytest)]
    if sum(counts) == 0:
        return [int(passed), int(not passed), 0]
    if not passed and counts[1] == 0:  # it died
        counts[1] = 1
    return counts


def reasons(output):
    """Why cases were skipped, each reason with its count."""
    return "; ".join(f"{n} × {why}" for why, n in Counter(each_reason(output)).most_common()).replace("\t", " ")


def each_reason(output):
    for line, following in zip(output, output[1:] + [""]):
        if re.search(r": Skipped$", line):
            yield following
        elif match := re.match(r"SKIPPED \[(\d+)\] (.*?): (.*)", line):
            yield from [match.group(3)] * int(match.group(1))


def of_ctest(log):
    """Rows of what `ctest -V` printed. Tests that began and did not end were stopped."""
    outputs, begun, rows, failed = {}, {}, [], []
    for line in Path(log).read_text(errors="replace").splitlines():
        if match := re.match(r"(\d+): (?!Test command:)(.*)", line):
            outputs.setdefault(match.group(1), []).append(match.group(2))
        elif match := re.match(r" +Start +(\d+): (\S+)", line):
            begun[match.group(1)] = match.group(2)
        elif match := re.match(r" *\d+/\d+ +Test +#(\d+): (\S+) \.*([^*]*)(\**)(.*?) +([\d.]+) sec", line):
            number, name, before, stars, after, seconds = match.groups()
            verdict = (before + after.replace("Exception:", "")).strip(" .:")
            begun.pop(number, None)
            output = outputs.get(number, [])
            if verdict.startswith("Skipped"):
                rows.append((name, 0, 0, 1, seconds, "skipped", f"1 × {output[-1] if output else 'no reason given'}"))
                continue
            rows.append((name, *cases(output, not stars), seconds, "FAILED: " + verdict if stars else "passed", reasons(output)))
            if stars:
                failed += [f"==== {name}: {verdict}", *output[-400:]]
    for number, name in begun.items():
        rows.append((name, 0, 1, 0, 0, "FAILED: not finished", ""))
        failed += [f"==== {name}: not finished", *outputs.get(number, [])[-100:]]
    return rows, failed


def of_gpu(logs, ended):
    """Rows of the logs of tests/run_on_gpu.sh: a program's processes, or a tool of the sanitizer, each."""
    finished = [line.split() for line in (Path(logs) / ended).read_text().splitlines()] if (Path(logs) / ended).exists() else []
    counted, outputs, seconds, bad, failed = {}, {}, Counter(), {}, []
    for name, status, _, _, took in finished:
        seconds[name] += int(took)
        bad[name] = bad.get(name, 0) + (status != "0")
    shards = Counter(name for name, *_ in finished)
    for log in sorted(Path(logs).glob("*.txt")):
        name = log.name.split(".")[0]
        output = log.read_text(errors="replace").splitlines()
        counts = counted.setdefault(name, [0, 0, 0])
        for i, mark in enumerate((r"\[       OK \]", r"\[  FAILED  \].* ms\)$", r"\[  SKIPPED \].* ms\)$")):
            counts[i] += sum(bool(re.match(mark, line)) for line in output)
        outputs.setdefault(name, []).extend(output)
        shards[name] -= 1
        if any(re.match(r"\[  FAILED  \]|died|.*ERROR SUMMARY: [1-9]", line) for line in output):
            failed += [f"==== {log.name}", *output[-200:]]
    rows = []
    for name, counts in sorted(counted.items()):
        verdict = "passed"
        if bad.get(name):
            verdict, counts[1] = f"FAILED: {bad[name]} processes", max(counts[1], 1)
        if shards[name]:
            verdict, counts[1] = "FAILED: not finished", counts[1] + 1
        rows.append((name, *counts, seconds[name], verdict, reasons(outputs[name])))
    return rows, failed


def markdown(rows):
    out = ["| step | test | passed | failed | skipped | s | |", "|---|---|---:|---:|---:|---:|---|"]
    for r in rows:
        out.append(f"| {r.step} | `{r.name}` | {r.passed} | {r.failed} | {r.skipped} | {float(r.seconds):.0f} | {r.verdict} |")
    for step in dict.fromkeys(r.step for r in rows):
        ours = [r for r in rows if r.step == step]
        total = [sum(int(getattr(r, what)) for r in ours) for what in ("passed", "failed", "skipped")]
        bad = sum(r.verdict.startswith("FAILED") for r in ours)
        verdict = f"FAILED: {bad} of {len(ours)}" if bad else f"all {len(ours)} passed" + (", some skipped" if total[2] else "")
        numbers = " | ".join(f"**{n}**" for n in total)
        out.append(f"| **{step}** | | {numbers} | {sum(float(r.seconds) for r in ours):.0f} | **{verdict}** |")
    return out


def main():
    results, step, *words = Path(sys.argv[1]), *sys.argv[2:]
    store = results / "rows.tsv"
    rows = [Row(*line.split("\t")) for line in store.read_text().split("\n") if line] if store.exists() else []
    this = tree()
    new, failed = [], []
    if step == "build":
        status, seconds, build, *targets = words
        new = [(" ".join(targets) or "all", int(status == "0"), int(status != "0"), 0, seconds, "passed" if status == "0" else "FAILED", "")]
        (results / "machine.txt").write_text("\n".join(machine(Path(build))) + "\n")
    elif step == "ctest":
        new, failed = of_ctest(words[0])
    elif step in ("gpu", "sanitize", "aarch64"):
        new, failed = of_gpu(words[0], "sanitized" if step == "sanitize" else "shards")
    elif step == "script":
        name, status, log = words
        output = Path(log).read_text(errors="replace").splitlines()
        step, new = name, [(name, *cases(output, status == "0"), 0, "passed" if status == "0" else "FAILED", reasons(output))]
        failed = output if status != "0" else []
    if step != "table":
        added = [Row(this, step, *map(str, row)) for row in new]
        kept = {(r.tree, r.step, r.name): r for r in rows + added}
        store.write_text("".join("\t".join(r) + "\n" for r in kept.values()))
        (results / f"failed_{step}.txt").write_text("\n".join(failed) + "\n" if failed else "")
        shown = added
    else:
        shown = [r for r in rows if r.tree == this]
        ran = {r.name for r in shown if r.step == "ctest"}
        every = (results / "tests.txt").read_text().split() if (results / "tests.txt").exists() else []
        shown += [Row(this, "ctest", name, "0", "1", "0", "0", "FAILED: not run", "") for name in every if name not in ran]
    known = results / "machine.txt"
    head = [f"Tree {this}.", *(known.read_text().splitlines() if known.exists() else [])]
    why = [f"- skipped in {r.step} `{r.name}`: {r.why}" for r in shown if r.why]
    text = "\n".join([*head, "", *markdown(shown), "", *why]) + "\n"
    (results / ("table.md" if step == "table" else f"table_{step}.md")).write_text(text)
    print(text, end="")
    return any(r.verdict.startswith("FAILED") for r in shown) or not shown


if __name__ == "__main__":
    sys.exit(main())
