#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ebb beside PyTorch, Liger, CCE and QuACK on one GPU: the same inputs, value and gradient, in one run.

    bench/compare_gpu.py [--suite rows,losses] [--quick] [--budget SECONDS] [--json FILE] [--prepare 8]
    bench/compare_gpu.py --merge ALL.json FILE.json ...
        joins runs; of a row that was measured twice, the last file's is kept
    bench/compare_gpu.py --page docs [FILE.json ...]
        writes the section of docs/benchmarks.md and its plots from earlier runs (bench/gpu/h200.json)

Contenders: Ebb compiled (`ebb.compile`), PyTorch eager, torch.compile of value and gradient as one graph (with
--max-autotune also in mode max-autotune-no-cudagraphs), and Liger, Apple's CCE and QuACK where they can be imported. They
take turns; a time is the median of the rounds, between two synchronisations, over enough calls to fill 20 ms. Results are
checked against f64 first, and whoever is wrong is left out. The percentage is the share of the bandwidth of a copy on this
GPU that the bytes which must move (inputs once, results once) stand for. A number behind a peer is its time over Ebb's.

`--device cpu --quick` runs everything on tiny arrays in the host's memory, to see whether it runs.
"""

import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent  # in which nothing may be called `cuda`: NVIDIA has a package of that name
sys.path += [str(HERE / "peers")]

PREPARING = 300  # seconds that compilers may take at most
SUITES = ["rows", "linear_ce", "train", "losses", "custom", "small", "norms", "attention", "ctc", "latency"]


class Run:
    """What a suite needs: the device, the options and where its rows go."""

    def __init__(self, machine, options, record, packages):
        self.machine, self.options, self.record, self.packages = machine, options, record, packages

    def chosen(self, makers):
        """Without peers that are not there or not asked for."""
        from gpu.names import PACKAGES

        family = lambda key: key.split()[0]
        return {key: make for key, make in makers.items()
                if (family(key) not in PACKAGES or family(key) in self.packages)
                and (family(key) in ("ebb", "products") or family(key) in self.options.peers)}


def suites():
    from gpu import elementwise, latency, linear_ce, rows, sequences, small, train

    return {"rows": rows.rows, "linear_ce": linear_ce.linear_ce, "train": train.train, "losses": elementwise.losses,
            "custom": elementwise.custom, "small": small.small, "norms": rows.norms, "attention": sequences.attention,
            "ctc": sequences.ctc, "latency": latency.latency}


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: [w for w in text.split(",") if w]
    p.add_argument("files", nargs="*", help="with --page and --merge: results of earlier runs")
    p.add_argument("--suite", type=words, default=SUITES, help=f"of {','.join(SUITES)}")
    p.add_argument("--cases", help="a regular expression: only these cases")
    p.add_argument("--dtypes", type=words, default=["bf16", "f32"], help="of the suites losses and custom")
    p.add_argument("--quick", action="store_true", help="smaller arrays")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--budget", type=float, help="seconds after which no further row is begun")
    p.add_argument("--max-autotune", type=words, nargs="?", const=SUITES, default=[], metavar="SUITES",
                   help="torch.compile also in mode max-autotune-no-cudagraphs, which compiles for minutes")
    p.add_argument("--peers", type=words, default=["eager", "compile", "max_autotune", "graphs", "cudnn", "liger", "cce",
                                                   "quack"], help="who takes part beside Ebb; '' for nobody")
    p.add_argument("--prepare", type=int, metavar="PROCESSES",
                   help="first let so many processes compile everything at once (first calls then find it on the disk)")
    p.add_argument("--part", help=argparse.SUPPRESS)  # K/N: such a process, which compiles every Nth case
    p.add_argument("--gpt2", help="the example program (build/release/examples/gpt2, or $EBB_GPT2)")
    p.add_argument("--device", default="cuda")
    p.add_argument("--json", help="write the figures there, after every row")
    p.add_argument("--page", metavar="DOCS", help="write DOCS/benchmarks.md's section and plots from files")
    p.add_argument("--merge", metavar="FILE", help="write the rows of all files there")
    options = p.parse_args()
    unknown = [s for s in (*options.suite, *options.max_autotune) if s not in SUITES]
    if unknown:
        p.error(f"there is no suite '{unknown[0]}'; there are {', '.join(SUITES)}")
    numbers = itertools.count()
    mine, of = map(int, options.part.split("/")) if options.part else (0, 1)
    options.wanted = lambda case: (not options.cases or re.search(options.cases, case)) and next(numbers) % of == mine
    return options


def prepare(options):
    """Compilers leave what they made on the disk, where the run that measures finds it."""
    rest = [a for k, a in enumerate(sys.argv[1:]) if not a.startswith(("--prepare", "--json", "--budget"))
            and sys.argv[k] not in ("--prepare", "--json", "--budget")]
    environment = dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS="2")
    started, log = time.monotonic(), tempfile.TemporaryFile()
    running = [subprocess.Popen([sys.executable, __file__, *rest, "--part", f"{k}/{options.prepare}"], env=environment,
                                stdout=log, stderr=log) for k in range(options.prepare)]
    for process in running:
        try:
            process.wait(max(1, started + PREPARING - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    print(f"compiled by {options.prepare} processes in {time.monotonic() - started:.0f} s", flush=True)


def facts_of(machine, options, packages):
    if options.part:
        return {"copy_bytes_per_second": 1}
    import torch

    from gpu import contenders, names

    versions = {"PyTorch": torch.__version__, **{names.TITLES[k]: contenders.version(k) for k in packages}}
    return {
        "device": machine.name(), "driver": machine.driver(), "versions": versions, "missing": contenders.missing,
        "when": time.strftime("%Y-%m-%d"), "quick": options.quick, "rounds": options.rounds,
        "prepared": bool(options.prepare),
        "copy_bytes_per_second": machine.copy_bytes_per_second(options.rounds),
        "product_flops_per_second": machine.product_flops_per_second(options.rounds),
        "special_functions_per_second": machine.special_functions_per_second(),
    }


def measure(options):
    from gpu import contenders
    from gpu.machine import Machine
    from gpu.record import OutOfTime, Record

    warnings.filterwarnings("ignore")  # of the compiler of PyTorch
    machine = Machine(options.device, options.quick)
    packages = contenders.find_packages(machine, options.peers)
    facts = facts_of(machine, options, packages)
    record = Record(options.json, facts, options.budget)
    if options.part:
        for name in options.suite:
            try:
                suites()[name](Run(machine, options, record, packages))
            except Exception:
                traceback.print_exc()
        return 0
    print(f"{facts['device']}, driver {facts['driver']}: copy {facts['copy_bytes_per_second'] / 1e12:.2f} TB/s, "
          f"bf16 product {facts['product_flops_per_second'] / 1e12:.0f} TFLOP/s; "
          + ", ".join(f"{k} {v}" for k, v in facts["versions"].items()))
    for title, reason in contenders.missing.items():
        print(f"without {title}: {reason}")
    print(f"\n{'':<46}{'Ebb':>10}{'of copy':>8}  peers: time over Ebb's", flush=True)
    run, failed = Run(machine, options, record, packages), []
    for name in options.suite:
        started = time.monotonic()
        try:
            suites()[name](run)
        except OutOfTime:
            print(f"\nThe {options.budget:.0f} s are over; left: {', '.join(options.suite[options.suite.index(name):])}")
            break
        except Exception:
            traceback.print_exc()  # the other suites are worth having
            failed.append(name)
        machine.empty_caches()
        print(f"    ({name}: {time.monotonic() - started:.0f} s)", flush=True)
    record.save()
    for text in record.wrong:
        print(f"Ebb failed: {text}")
    return 1 if record.wrong or failed else 0


def main():
    options = parse_arguments()
    if options.page or options.merge:
        from gpu import page, record

        known = record.read(options.files or [page.STORED])
        if options.merge:
            record.write(known, options.merge)
        if options.page:
            page.write(known, Path(options.page))
        return 0
    if options.prepare and not options.part:
        prepare(options)
    return measure(options)


if __name__ == "__main__":
    sys.exit(main())
