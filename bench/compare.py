#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures Ebb against PyTorch, torch.compile, JAX and MLX on the same inputs and prints where it stands.

    make bench                     every suite (hours: the peers compile thousands of functions)
    make bench QUICK=1             large f32 value + gradient rows only, few rounds
    make bench SUITE=losses        one suite: engine, products, losses, custom, linear_ce, autograd, train, scaling, startup
    bench/compare.py --suite losses --cases 'mse|huber' --sizes small --peers torch,jax
    bench/compare.py --rows bench/many_cores.rows --threads 2,16 --budget 450 --results many_cores.json

Every result is held against f64 before it is timed. Contenders take turns, round by round; medians over all rounds,
with quartiles. The first call (which compiles, where a framework compiles) is shown apart.
"""

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

import contenders
import machines
import page
import report
import scaling
import setting
import startup

SUITES = ["engine", "products", "losses", "custom", "linear_ce", "autograd", "train", "scaling", "startup"]
RESULTS = setting.ROOT / "bench" / "results" / "latest.json"
REST = 0.1  # seconds before a turn: threads of the one before may still spin
OUT_OF_CACHE = 100e6  # bytes; below, a share of copy bandwidth means nothing
SLOW = 10  # seconds; who takes longer for a call is timed in one round only
LONG = 1.0  # seconds a round; after as many in all, a contender has been timed enough
TOLERANCE = {"f32": 1e-3, "bf16": 5e-2}  # of the size of what is compared; the peers round more often than Ebb


def differs(results, reference, dtype):
    """What is wrong with a result, in words; None if it is right."""
    if len(results) != len(reference):
        return f"{len(results)} results instead of {len(reference)}"
    for k, (got, expected) in enumerate(zip(results, reference)):
        if got["count"] != expected["count"]:
            return f"result {k} has {got['count']} elements instead of {expected['count']}"
        scale = max([abs(e) for e in expected["elements"]] + [expected["norm"] / max(expected["count"], 1) ** 0.5])
        allowed = TOLERANCE[dtype]
        if not abs(got["norm"] - expected["norm"]) <= allowed * max(expected["norm"], 1e-30):
            return f"{'value' if k == 0 else 'gradient'} norm {got['norm']:.6g} instead of {expected['norm']:.6g}"
        for a, b in zip(got["elements"], expected["elements"]):
            if not abs(a - b) <= allowed * max(scale, 1e-30):
                return f"{'value' if k == 0 else 'gradient'} element {a:.6g} instead of {b:.6g}"
    return None


def bytes_moved(inputs, mode):
    """Inputs read once and gradients written once."""
    width = {"f64": 8, "f32": 4, "bf16": 2, "i64": 8, "bool": 1}
    total = 0
    for i in inputs:
        count = 1
        for size in i["shape"]:
            count *= size
        total += count * width[i["dtype"]] * (2 if i["differentiate"] and mode == "value+grad" else 1)
    return total


class Comparison:
    """Ebb and its peers with one number of threads."""

    def __init__(self, options, python, worker, log, threads):
        self.options, self.threads = options, threads
        self.ebb, self.ways, every = contenders.start_contenders(
            worker, python, contenders.PEERS, threads, log, options.timeout)
        self.every_peer = {p.key: p for p in every}

    @property
    def peers(self):
        return [self.every_peer[key] for key in self.options.peers]

    def stop(self):
        for c in (self.ebb, *self.ways.values(), *self.every_peer.values()):
            c.stop()

    def reference(self, request, inputs):
        """Value and gradients in f64, by PyTorch where it can, else by Ebb's double-precision path."""
        request = dict(request, mode="value+grad", reference=True)
        judge = self.every_peer["torch"]
        if "torch" in self.options.peers:
            answer = judge.ask(**request, inputs=inputs)
            judge.ask(do="drop")
            if "results" in answer:
                return answer["results"], "PyTorch f64"
        answer = self.ebb.ask(**request)
        self.ebb.ask(do="drop")
        return answer.get("results", []), "Ebb f64"

    def measure_mode(self, request, case, inputs, reference):
        mode, dtype = request["mode"], request["dtype"]
        running, results = [], {}
        ways = [self.ways["hand"]] if case["by_hand"] else []
        # Building the graph is of weight where computing it is not.
        if not case["training"] and (request["size"] == "small" or request["suite"] == "autograd"):
            ways.append(self.ways["rebuilt"])
        others = ways + self.peers
        for c in (self.ebb, *others):
            answer = c.ask(**request, inputs=inputs) if c in self.peers else c.ask(**request)
            result = {"title": case["by_hand"] if c.key == "hand" else c.title}
            if "results" not in answer:
                result["reason"] = answer.get("unavailable") or answer.get("error")
            else:
                wanted = reference if mode == "value+grad" else reference[:1]
                wrong = differs(answer["results"], wanted, dtype)
                result.update({k: v for k, v in answer.items() if k != "results"})
                if wrong:
                    result["reason"] = f"wrong: {wrong}"
                if not wrong or c is self.ebb:
                    running.append((c, result))
            results[c.key] = result
        moved = bytes_moved(inputs, mode)
        copy_s = self.take_turns(running, moved if case["memory_bound"] and moved > OUT_OF_CACHE else None)
        for c in (self.ebb, *others):
            c.ask(do="drop")
        return {
            "suite": request["suite"], "case": request["case"], "size": request["size"], "dtype": dtype, "mode": mode,
            "threads": self.threads,
            "shapes": [i["shape"] for i in inputs], "nodes": case["nodes"], "same_bits_as": case["same_bits_as"],
            "bytes": moved, "copy_s": copy_s, "results": results,
        }

    def take_turns(self, running, copied=None):
        """Times everyone round by round; beside them a copy of as many bytes, whose median is returned."""
        seconds, copies = {c.key: [] for c, _ in running}, []
        for turn in range(self.options.rounds):
            if copied:
                copies += self.ebb.ask(do="copy", bytes=copied, samples=5)["seconds"]
            order = running[turn % len(running):] + running[:turn % len(running)] if running else []
            for c, result in order:
                estimate = max(result["estimate_s"], 1e-7)
                if seconds[c.key] and (estimate > SLOW or sum(seconds[c.key]) > self.options.rounds * LONG):
                    continue
                calls = max(1, min(1000, int(1e-3 / estimate)))
                samples = max(1, min(30, int(self.options.seconds / (estimate * calls))))
                time.sleep(REST)
                answer = c.ask(do="time", samples=samples, calls=calls)
                if "seconds" in answer:
                    seconds[c.key] += answer["seconds"]
                else:
                    result["reason"] = answer.get("error")
        for c, result in running:
            if seconds[c.key]:
                all_seconds = sorted(seconds[c.key])
                result["median_s"] = statistics.median(all_seconds)
                result["low_s"] = all_seconds[len(all_seconds) // 4]
                result["high_s"] = all_seconds[(3 * len(all_seconds)) // 4]
        return statistics.median(copies) if copies else None


def measured(comparisons, suite, options, out_of_time):
    """Yields the suite's rows: each case with every number of threads in turn."""
    most = comparisons[-1]
    for case in most.ebb.ask(do="list", suite=suite)["cases"]:
        if options.cases and not re.search(options.cases, case["case"]):
            continue
        for size in case["sizes"]:
            for dtype in case["dtypes"]:
                if size not in options.sizes or dtype not in options.dtypes:
                    continue
                if out_of_time():
                    print(f"{case['case']} {size} {dtype}: not measured, the time is spent", flush=True)
                    continue
                yield from measured_case(comparisons, suite, case, size, dtype)


def measured_case(comparisons, suite, case, size, dtype):
    most = comparisons[-1]
    base = {"do": "prepare", "suite": suite, "case": case["case"], "size": size, "dtype": dtype}
    with tempfile.TemporaryDirectory(prefix="ebb-bench-") as folder:
        inputs = most.ebb.ask(**dict(base, do="inputs", directory=folder))["inputs"]
        reference, judge = most.reference(base, inputs)
        for comparison in comparisons:
            if suite == "train":  # the memory of whole processes is compared: each begins anew
                for c in comparisons:
                    c.stop()
            for mode in case["modes"]:
                if mode in comparison.options.modes:
                    row = comparison.measure_mode(dict(base, mode=mode), case, inputs, reference)
                    row["judge"] = judge
                    yield row


def parts_of(options):
    """What to measure, as one set of options per suite: those of the command line, or a line of --rows each."""
    if not options.rows:
        return [argparse.Namespace(**dict(vars(options), suite=suite)) for suite in options.suite]
    parts = []
    for text in Path(options.rows).read_text().splitlines():
        if not text.strip() or text.startswith("#"):
            continue
        # The cases' pattern may have bars of its own.
        suite, rest = text.split("|", 1)
        cases, dtypes, peers = (field.strip() for field in rest.rsplit("|", 2))
        peers = [p for p in peers.split(",") if p in options.peers]
        parts.append(argparse.Namespace(**dict(vars(options), suite=suite.strip(), cases=f"^(?:{cases})$",
                                               dtypes=dtypes.split(","), peers=peers)))
    return parts


def not_measured_again(before, rows):
    """Tables (a size, a dtype, value or gradient) of an earlier run of the suite that this one has no row of."""
    table = lambda row: (row.get("size"), row.get("dtype"), row.get("mode"))
    now = {table(row) for row in rows}
    return [row for row in (before or {}).get("rows", []) if table(row) not in now]


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: [w for w in text.split(",") if w]
    p.add_argument("--suite", type=words, default=SUITES, help="which suites, with commas between")
    p.add_argument("--quick", action="store_true", help="large f32 value+grad rows, three short rounds")
    p.add_argument("--cases", help="a regular expression: only these cases (no page is written)")
    p.add_argument("--sizes", type=words)
    p.add_argument("--dtypes", type=words)
    p.add_argument("--modes", type=words)
    p.add_argument("--peers", type=words, default=list(contenders.PEERS), help="of torch,compile,jax,mlx; '' for none")
    p.add_argument("--rounds", type=int)
    p.add_argument("--seconds", type=float, help="a contender's turn")
    all_threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    p.add_argument("--threads", type=lambda text: [int(w) for w in words(text)], default=[all_threads],
                   help="one number, or several with commas between (no page is written)")
    p.add_argument("--rows", help="a file that names the rows: suite | cases | dtypes | peers (no page is written)")
    p.add_argument("--budget", type=float, help="seconds after which no further row is begun")
    p.add_argument("--results", type=Path, default=RESULTS, help="where the figures go, after every row")
    p.add_argument("--timeout", type=float, default=900, help="seconds after which a contender is given up on")
    p.add_argument("--no-page", action="store_true", help="do not write docs/benchmarks.md")
    options = p.parse_args()
    unknown = [s for s in options.suite if s not in SUITES]
    if unknown:
        p.error(f"there is no suite '{unknown[0]}'; there are {', '.join(SUITES)}")
    quick = options.quick or bool(options.rows)
    options.sizes = options.sizes or (["large"] if quick else ["small", "medium", "large"])
    options.dtypes = options.dtypes or (["f32"] if quick else ["f32", "bf16"])
    options.modes = options.modes or (["value+grad"] if quick else ["value", "value+grad"])
    options.threads = sorted(options.threads)
    options.rounds = options.rounds or (3 if quick else 5)
    options.seconds = options.seconds or (0.15 if quick else 0.4)
    return options


class Results:
    """The file of figures: rows of earlier runs that this one does not measure again stay in it."""

    def __init__(self, options, python):
        self.file, self.options = options.results, options
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.before = json.loads(self.file.read_text()) if self.file == RESULTS and RESULTS.exists() else {"suites": {}}
        self.known = dict(self.before, suites=dict(self.before["suites"]))
        self.known["machine"] = setting.machine(options.threads[-1])
        self.known["versions"] = setting.versions(python) if options.peers else {}
        self.rows = {}

    def add(self, suite, rows, floors, started):
        mine = self.rows.setdefault(suite, [])
        mine += rows
        if self.file == RESULTS and self.options.cases:
            return  # a part of a suite does not replace it
        whole = suite in ("startup", "scaling")
        kept = [] if whole else not_measured_again(self.before["suites"].get(suite), mine)
        self.known["suites"][suite] = {
            "rows": mine + kept, "floors": floors, "quick": self.options.quick,
            "peers": [p for p in contenders.PEERS if any(p in r.get("results", {}) for r in mine + kept)],
            "when": time.strftime("%Y-%m-%d"), "took_s": time.time() - started,
        }
        self.file.write_text(json.dumps(self.known, indent=1))


def measure_part(part, comparisons, build, python, log, results, out_of_time):
    started, suite = time.time(), part.suite
    for c in comparisons:
        c.options = part
    most = comparisons[-1]
    floors = most.ebb.ask(do="floors")
    print(f"\n{suite}: copy {floors['copy_bytes_per_second'] / 1e9:.1f} GB/s, "
          f"GEMM {floors['gemm_flops_per_second'] / 1e9:.1f} GFLOP/s, {most.threads} threads\n", flush=True)
    if suite == "startup":
        rows = startup.rows(build, python, part)
        print(report.startup_text(rows))
        return results.add(suite, rows, floors, started)
    if suite == "scaling":
        for c in comparisons:
            c.stop()  # idle threads of others would be in the way
        rows = scaling.rows(build / "bench" / "ebb_bench_worker", python, part, log, out_of_time)
        print(report.scaling_header(scaling.counts()))
        print("\n".join(report.scaling_line(row) for row in rows), flush=True)
        return results.add(suite, rows, floors, started)
    rows = []
    print(report.header(part.peers), flush=True)
    for row in measured(comparisons, suite, part, out_of_time):
        rows.append(row)
        print(report.line(row, part.peers), flush=True)
        results.add(suite, [row], floors, started)
    for c in comparisons:
        if len(comparisons) > 1:
            print(f"\n{c.threads} threads")
        print(report.summary([r for r in rows if r["threads"] == c.threads], part.peers))


def main():
    options = parse_arguments()
    python = setting.peers_python() if options.peers else sys.executable
    build = setting.build_worker()
    results = Results(options, python)
    for key, needed in (("torch", "PyTorch"), ("compile", "PyTorch"), ("jax", "JAX"), ("mlx", "MLX")):
        if key in options.peers and not results.known["versions"].get(needed):
            print(f"{contenders.PEERS[key][0]} is not available here: {python} cannot import {needed}", flush=True)
            options.peers.remove(key)
    deadline = time.time() + options.budget if options.budget else None
    out_of_time = lambda: deadline is not None and time.time() > deadline
    # Kernels that a framework compiled in an earlier run would make its first calls look short.
    log_file = options.results.parent / "peers.log"
    with tempfile.TemporaryDirectory(prefix="ebb-bench-") as fresh, open(log_file, "w") as log:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = fresh
        worker = build / "bench" / "ebb_bench_worker"
        comparisons = [Comparison(options, python, worker, log, threads) for threads in options.threads]
        try:
            for part in parts_of(options):
                if out_of_time():
                    print(f"\n{part.suite} {part.cases or ''}: not measured, the time is spent", flush=True)
                    continue
                measure_part(part, comparisons, build, python, log, results, out_of_time)
        finally:
            for c in comparisons:
                c.stop()
    if not options.cases and not options.no_page and not options.rows and len(options.threads) == 1:
        page.write_page(results.known, setting.ROOT / "docs")
        machines.PAGE.write_text(machines.write_section(machines.PAGE.read_text()))
        print("\nWrote docs/benchmarks.md")


if __name__ == "__main__":
    main()
