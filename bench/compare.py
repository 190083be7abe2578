#!/usr/bin/env python3
"""Measures Ebb against PyTorch, torch.compile, JAX and MLX on the same inputs and prints where it stands.

    make bench                     every suite (hours: the peers compile thousands of functions)
    make bench QUICK=1             large f32 value + gradient rows only, few rounds
    make bench SUITE=losses        one suite: engine, losses, custom, linear_ce, autograd, train, scaling, startup
    bench/compare.py --suite losses --cases 'mse|huber' --sizes small --peers torch,jax

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
import report
import scaling
import setting
import startup

SUITES = ["engine", "losses", "custom", "linear_ce", "autograd", "train", "scaling", "startup"]
RESULTS = setting.ROOT / "bench" / "results" / "latest.json"
REST = 0.1  # seconds before a turn: threads of the one before may still spin
OUT_OF_CACHE = 100e6  # bytes; below, a share of copy bandwidth means nothing
SLOW = 10  # seconds; who takes longer for a call is timed in one round only
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
    def __init__(self, options, python, worker, log):
        self.options = options
        self.ebb, self.ways, self.peers = contenders.start_contenders(
            worker, python, options.peers, options.threads, log, options.timeout)
        self.reference_peer = next((p for p in self.peers if p.key == "torch"), None)

    def stop(self):
        for c in (self.ebb, *self.ways.values(), *self.peers):
            c.stop()

    def reference(self, request, inputs):
        """Value and gradients in f64, by PyTorch where it can, else by Ebb's double-precision path."""
        request = dict(request, mode="value+grad", reference=True)
        if self.reference_peer:
            answer = self.reference_peer.ask(**request, inputs=inputs)
            self.reference_peer.ask(do="drop")
            if "results" in answer:
                return answer["results"], "PyTorch f64"
        answer = self.ebb.ask(**request)
        self.ebb.ask(do="drop")
        return answer.get("results", []), "Ebb f64"

    def rows(self, suite):
        listed = self.ebb.ask(do="list", suite=suite)["cases"]
        for case in listed:
            if self.options.cases and not re.search(self.options.cases, case["case"]):
                continue
            for size in case["sizes"]:
                for dtype in case["dtypes"]:
                    if size in self.options.sizes and dtype in self.options.dtypes:
                        yield from self.measure(suite, case, size, dtype)

    def measure(self, suite, case, size, dtype):
        base = {"do": "prepare", "suite": suite, "case": case["case"], "size": size, "dtype": dtype}
        with tempfile.TemporaryDirectory(prefix="ebb-bench-") as folder:
            inputs = self.ebb.ask(**dict(base, do="inputs", directory=folder))["inputs"]
            reference, judge = self.reference(base, inputs)
            if suite == "train":  # the memory of whole processes is compared: each begins anew
                self.stop()
            for mode in case["modes"]:
                if mode in self.options.modes:
                    row = self.measure_mode(dict(base, mode=mode), case, inputs, reference)
                    row["judge"] = judge
                    yield row

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
                if estimate > SLOW and seconds[c.key]:
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
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0))
                   if hasattr(setting.os, "sched_getaffinity") else os.cpu_count())
    p.add_argument("--timeout", type=float, default=900, help="seconds after which a contender is given up on")
    p.add_argument("--no-page", action="store_true", help="do not write docs/benchmarks.md")
    options = p.parse_args()
    unknown = [s for s in options.suite if s not in SUITES]
    if unknown:
        p.error(f"there is no suite '{unknown[0]}'; there are {', '.join(SUITES)}")
    quick = options.quick
    options.sizes = options.sizes or (["large"] if quick else ["small", "medium", "large"])
    options.dtypes = options.dtypes or (["f32"] if quick else ["f32", "bf16"])
    options.modes = options.modes or (["value+grad"] if quick else ["value", "value+grad"])
    options.rounds = options.rounds or (3 if quick else 5)
    options.seconds = options.seconds or (0.15 if quick else 0.4)
    return options


def main():
    options = parse_arguments()
    python = setting.peers_python() if options.peers else sys.executable
    build = setting.build_worker()
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"suites": {}}
    known["machine"] = setting.machine(options.threads)
    known["versions"] = setting.versions(python) if options.peers else {}
    # What a framework compiled in an earlier run would make its first calls look short.
    with tempfile.TemporaryDirectory(prefix="ebb-bench-") as fresh, open(RESULTS.parent / "peers.log", "w") as log:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = fresh
        comparison = Comparison(options, python, build / "bench" / "ebb_bench_worker", log)
        try:
            for suite in options.suite:
                started = time.time()
                floors = comparison.ebb.ask(do="floors")
                print(f"\n{suite}: copy {floors['copy_bytes_per_second'] / 1e9:.1f} GB/s, "
                      f"GEMM {floors['gemm_flops_per_second'] / 1e9:.1f} GFLOP/s, {options.threads} threads\n", flush=True)
                if suite == "startup":
                    rows = startup.rows(build, python, options)
                    print(report.startup_text(rows))
                elif suite == "scaling":
                    comparison.stop()  # idle threads of others would be in the way
                    rows = []
                    print(report.scaling_header(scaling.counts()), flush=True)
                    for row in scaling.rows(build / "bench" / "ebb_bench_worker", python, options, log):
                        rows.append(row)
                        print(report.scaling_line(row), flush=True)
                else:
                    rows = []
                    print(report.header(options.peers), flush=True)
                    for row in comparison.rows(suite):
                        rows.append(row)
                        print(report.line(row, options.peers), flush=True)
                    print(report.summary(rows, options.peers))
                if not options.cases:
                    kept = [] if suite in ("startup", "scaling") else not_measured_again(known["suites"].get(suite), rows)
                    known["suites"][suite] = {
                        "rows": rows + kept, "floors": floors, "quick": options.quick,
                        "peers": [p for p in contenders.PEERS if any(p in r.get("results", {}) for r in rows + kept)],
                        "when": time.strftime("%Y-%m-%d"), "took_s": time.time() - started,
                    }
                    RESULTS.write_text(json.dumps(known, indent=1))
        finally:
            comparison.stop()
    if not options.cases and not options.no_page:
        report.write_page(known, setting.ROOT / "docs")
        print("\nWrote docs/benchmarks.md")


if __name__ == "__main__":
    main()
