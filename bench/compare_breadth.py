#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every function beside eager PyTorch, value and gradient, at sizes that nobody tuned for.

    bench/compare_breadth.py [--device cuda] [--seed 1] [--budget 600] [--only REGEX] [--json FILE] [--markdown FILE]

A row is a function of breadth/table.py at sizes of one kind (breadth/sizes.py: round, odd, extreme) that are drawn from the
seed, in f32 or bf16. Both get the same inputs and cotangents; results are compared first. Ebb's function is compiled
(`ebb.compile`) where it can be. Contenders take turns, a time is the median over the rounds, and a row's ratio is
PyTorch's time over Ebb's: below 1, Ebb is behind. Where results differ, PyTorch's of f64 say who is off. Rows come in random order,
so that a run which the budget ends is a sample.

All rows in little time: several processes with --shard 0/14 ... 13/14 disturb each other's times, but compile every kernel;
then one alone measures again what was behind: --again SHARD.json... with the same seed.
"""

import argparse
import json
import random
import re
import sys
import time
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE / "peers")]

from breadth import report, sizes  # noqa: E402
from breadth.table import ROWS  # noqa: E402

TOLERANCE = {"f32": 2e-3, "bf16": 6e-2}  # of the norm: PyTorch rounds to the dtype after every operation


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=1, help="draws sizes, inputs and the order")
    parser.add_argument("--budget", type=float, help="seconds after which no row is begun")
    parser.add_argument("--only", default="", help="a regular expression that the names of functions match")
    parser.add_argument("--shard", default="0/1", metavar="K/N", help="every N-th row, from row K on")
    parser.add_argument("--again", type=Path, nargs="+", default=[], metavar="JSON", help="only rows that stand in these files with a ratio below --below")
    parser.add_argument("--below", type=float, default=1.1)
    parser.add_argument("--scale", choices=sizes.ELEMENTS, help="of sizes; that of the device unless given")
    parser.add_argument("--kinds", default=",".join(sizes.KINDS), help="of sizes")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, help="of both; all cores unless given")
    parser.add_argument("--processor-time", action="store_true", help="instead of wall time: for --threads 1 on a machine that others use, too")
    parser.add_argument("--tf32", action="store_true", help="on a GPU: f32 products and convolutions of both by TF32, of neither without")
    parser.add_argument("--kernels", type=int, default=0, metavar="N", help="on a GPU: the N longest kernels of both, with --json")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    return parser.parse_args()


def planned(options):
    """(row, kind, dtype) in random order, the same for a seed."""
    found = []
    again = {r["row"] for file in options.again for r in json.loads(file.read_text())["rows"] if r.get("ratio", options.below) < options.below}
    for row in ROWS:
        if not re.search(options.only, row.name):
            continue
        floats = re.search(r"=(?!whole|order|mask|starts|labels|filled|seen)\w", row.inputs)
        for kind in sizes.kinds_of(row.family):
            for dtype in options.dtypes.split(",") if floats else ["f32"]:
                if not options.again or key(row, kind, dtype) in again:
                    found.append((row, kind, dtype))
    random.Random(options.seed).shuffle(found)
    first, step = map(int, options.shard.split("/"))
    return found[first::step]


def key(row, kind, dtype):
    return f"{row.name} {row.expression} {kind} {dtype}"


def difference(ours, theirs):
    """The largest distance of two lists of tensors, relative to their norms; None where shapes differ."""
    import torch

    if len(ours) != len(theirs) or any(tuple(a.shape) != tuple(b.shape) for a, b in zip(ours, theirs)):
        return None
    worst = 0.0
    for a, b in zip(ours, theirs):
        a, b = a.to(torch.float64), b.to(torch.float64)
        same = (a == b) | (a.isnan() & b.isnan())
        off = torch.where(same, 0.0, a - b)
        worst = max(worst, float(torch.linalg.vector_norm(off) / torch.linalg.vector_norm(b).clamp(min=1e-6)))
    return worst


class Comparison:
    def __init__(self, options):
        import torch

        import ebb
        from breadth.libraries import Ebb, torch_library
        from gpu import timing
        from gpu.machine import Machine

        if options.processor_time:
            timing.clock = time.process_time
        self.options, self.torch, self.ebb = options, torch, ebb
        self.machine, self.Ebb, self.Torch = Machine(options.device, False), Ebb, torch_library()
        self.scale = options.scale or ("cuda" if self.machine.on_gpu else "cpu")
        if options.threads:
            torch.set_num_threads(options.threads)
            ebb.set_num_threads(options.threads)
        # PyTorch's convolutions of f32 round to TF32 unless told otherwise, its products do not, and Ebb's neither.
        torch.backends.cudnn.allow_tf32 = options.tf32
        torch.set_float32_matmul_precision("high" if options.tf32 else "highest")
        ebb.set_tf32(options.tf32)
        torch.set_default_device(options.device)
        ebb.set_default_device(options.device)

    def facts(self):
        torch, ebb = self.torch, self.ebb
        return {"device": self.machine.name(), "seed": self.options.seed, "when": time.strftime("%Y-%m-%d %H:%M"),
                "threads": ebb.num_threads(), "clock": "processor" if self.options.processor_time else "wall", "tf32": self.options.tf32, "versions": {"Ebb": ebb.__version__, "PyTorch": torch.__version__}}

    def measure(self, row, kind, dtype):
        from breadth.numbers import arrays
        from gpu import timing

        torch = self.torch
        row_key = key(row, kind, dtype)
        seed = f"{self.options.seed} {row_key}"
        kind, drawn = sizes.drawn(row.family, kind, seed, self.scale)
        if kind not in self.options.kinds.split(","):
            return None
        given = arrays(row, drawn, random.Random(seed).getrandbits(64))
        result = {"name": row.name, "row": row_key, "dtype": dtype, "kind": kind, "grad": row.grad,
                  "shapes": {name: list(a.shape) for name, (a, _) in given.items()},
                  "sizes": {name: s for name, s in drawn.items() if isinstance(s, int) and re.search(rf"\b{name}\b", row.expression)}}
        wanted = [k for k, (_, w) in enumerate(given.values()) if w]
        tensors = self.Torch.tensors(given, dtype, self.options.device)
        try:
            function = self.Torch.function(row, list(given), drawn)
            with torch.no_grad():
                values = [y for y in self.flat(function(*tensors)) if y.is_floating_point()]
            torch.manual_seed(self.options.seed)
            cotangents = [torch.randn(y.shape, device=y.device).to(y.dtype) for y in values] if wanted else []
            theirs = self.Torch.call(function, tensors, wanted, cotangents)
            expected = theirs()
            self.machine.synchronize()  # its errors are not ours
        except Exception as error:
            return {**result, "without": f"PyTorch: {self.first_line(error)}"}
        try:
            inputs = [self.ebb.from_dlpack(t) for t in tensors]
            g = [self.ebb.from_dlpack(t) for t in cotangents]
            ours, found = self.ready(row, list(given), drawn, inputs, wanted, g, result)
        except Exception as error:
            return {**result, "failed": self.first_line(error)}
        if dtype in row.same.split():
            try:
                off = difference([torch.from_dlpack(t) for t in found], expected)
            except Exception as error:
                off = None
                result["not_compared"] = self.first_line(error)
            if off is None or not off <= TOLERANCE[dtype]:
                exact = self.in_f64(function, tensors, wanted, cotangents) if off is not None else None
                ours_off, theirs_off = (difference(r, exact) if exact else off for r in ([torch.from_dlpack(t) for t in found], expected))
                if ours_off is not None and ours_off <= TOLERANCE[dtype]:
                    result["peer_off"] = theirs_off
                else:
                    result["differs"] = off
        del found, expected, values
        contenders = {"ebb": ours, "torch": theirs}
        self.machine.synchronize()
        start = time.perf_counter()
        ours()
        theirs()
        self.machine.synchronize()
        slow = time.perf_counter() - start
        rounds = self.options.rounds if slow < 0.1 else 5 if slow < 0.5 else 3 if slow < 2 else 1
        if rounds == 1:
            times = {name: {"median_s": timing.seconds_of(self.machine, call, 1)} for name, call in contenders.items()}
        else:
            times = timing.medians(self.machine, contenders, rounds, 0.005)
        result.update({f"{name}_s": t["median_s"] for name, t in times.items()})
        result["ratio"] = result["torch_s"] / result["ebb_s"]
        if self.options.kernels:
            result["kernels"] = {name: self.kernels(call) for name, call in contenders.items()}
        return result

    def kernels(self, call, calls=3):
        """[name, launches and microseconds per call], the longest first."""
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as run:
            for _ in range(calls):
                call()
            self.machine.synchronize()
        found = [[e.key[:120], e.count / calls, round(e.self_device_time_total / calls, 1)] for e in run.key_averages() if e.self_device_time_total]
        return sorted(found, key=lambda k: -k[2])[: self.options.kernels]

    def in_f64(self, function, tensors, wanted, cotangents):
        """PyTorch's results for the same inputs in f64: they say who is off. None where it has none."""
        def wide(t):
            return t.detach().to(self.torch.float64).requires_grad_(t.requires_grad) if t.is_floating_point() else t

        try:
            return self.Torch.call(function, [wide(t) for t in tensors], wanted, [wide(g) for g in cotangents])()
        except Exception:
            return None

    def ready(self, row, names, drawn, inputs, wanted, cotangents, result):
        """A call that works, and its result."""
        function = self.Ebb.function(row, names, drawn)
        failure = None
        for way, call in self.Ebb.calls(function, inputs, wanted, cotangents):
            try:
                found = call()
                result["way"] = way
                return call, found
            except Exception as error:
                failure = failure if way == "plain" and failure and "compile" not in str(failure) else error
        raise failure

    @staticmethod
    def flat(result):
        from breadth.libraries import flat

        return flat(result)

    @staticmethod
    def first_line(error):
        lines = str(error).strip().splitlines()
        return f"{type(error).__name__}: {lines[0][:160] if lines else ''}"


def main():
    options = parse_arguments()
    warnings.filterwarnings("ignore")
    comparison = Comparison(options)
    facts, results = comparison.facts(), []
    rows, started = planned(options), time.monotonic()
    for count, (row, kind, dtype) in enumerate(rows):
        if options.budget and time.monotonic() - started > options.budget:
            break
        result = comparison.measure(row, kind, dtype)
        if result is None:
            continue
        results.append(result)
        if report.is_behind(result) or "failed" in result or "differs" in result:
            print(report.line(result), flush=True)
        if options.json and count % 50 == 0:
            report.write_json(options.json, facts, results, len(rows))
    facts["seconds"] = round(time.monotonic() - started)
    print("\n" + report.summary(results, len(rows)))
    if options.json:
        report.write_json(options.json, facts, results, len(rows))
    if options.markdown:
        options.markdown.write_text(report.markdown(facts, results, len(rows)))
    return 1 if any("failed" in r for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
