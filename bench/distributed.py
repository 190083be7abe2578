#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Two ranks of one thread against one rank of two threads, on the same two cores and the same batch: how much of the
throughput is left? PyTorch's DistributedDataParallel (gloo) does the same work in the same run.

    bench/distributed.py                         MLP, CNN, GPT
    bench/distributed.py --cases mlp --repeats 9 --peers ''
    bench/distributed.py --cases gpt --overlap       and with the exchange during the reverse pass

Contenders take turns, each a new process that trains for a second or two; a figure is the median over the steps of all
turns, of the slowest processes in a turn too. Processor time is what the ranks used together, waiting included: on a
machine that does something else as well it says more than the clock does."""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
from pathlib import Path

from setting import ROOT, build_worker, peers_python

STEPS = {"mlp": 40, "cnn": 12, "gpt": 3}
TITLES = {
    "mlp": "MLP 784-1024-1024-10, batch 128",
    "cnn": "ResNet-20 on 32x32, batch 64",
    "gpt": "GPT, 4 layers of 256, vocabulary 32,000, 4 x 256 tokens",
}


def mpirun(ranks):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *root, "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]


def answer(process):
    out, err = process.communicate(timeout=600)
    if process.returncode != 0:
        sys.exit(f"{' '.join(process.args)} failed:\n{err}")
    lines = [line for line in out.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else None


def start(command):
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Ebb:
    """`ranks` of `threads` each. The optimiser is sharded, which changes no bits."""

    def __init__(self, program, ranks, threads, how="owners"):
        self.program, self.ranks, self.threads, self.how = str(program), ranks, threads, how
        self.title = f"Ebb {ranks} x {threads}" + (" overlap" if how == "overlap" else "")

    def run(self, case):
        alone = self.ranks == 1
        command = [self.program, case, "0" if alone else str(self.ranks), str(self.threads), str(STEPS[case])]
        return answer(start(command if alone else [*mpirun(self.ranks), *command, self.how]))


class Torch:
    def __init__(self, python, ranks, threads):
        self.python, self.ranks, self.threads = python, ranks, threads
        self.title = f"PyTorch {ranks} x {threads}"

    def run(self, case):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        worker = str(ROOT / "bench" / "peers" / "ddp.py")
        processes = [
            start([self.python, worker, case, str(r), str(self.ranks), str(self.threads), str(STEPS[case]), str(port)])
            for r in range(self.ranks)
        ]
        return [answer(p) for p in processes][0]


def summary(runs):
    return {
        "ms": 1e3 * statistics.median(t for r in runs for t in r["times"]),
        "processor": 1e3 * statistics.median(sum(x[0] for x in r["ranks"]) for r in runs),
        "waiting": 1e3 * statistics.median(x[1] for r in runs for x in r["ranks"]),
        "moving": 1e3 * statistics.median(x[2] for r in runs for x in r["ranks"]),
    }


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cases", default="mlp,cnn,gpt")
    p.add_argument("--repeats", type=int, default=7)
    p.add_argument("--peers", default="torch")
    p.add_argument("--overlap", action="store_true", help="two ranks with and without overlap, and no peers")
    p.add_argument("--json", help="also write all figures to this file")
    a = p.parse_args()
    program = build_worker(["ebb_bench_ranks"]) / "bench" / "ebb_bench_ranks"
    contenders = [Ebb(program, 1, 2), Ebb(program, 2, 1)]
    if a.overlap:
        contenders = [Ebb(program, 2, 1), Ebb(program, 2, 1, "overlap")]
    elif a.peers:
        contenders += [Torch(peers_python(), 1, 2), Torch(peers_python(), 2, 1)]
    found = {}
    for case in a.cases.split(","):
        runs = {c.title: [] for c in contenders}
        for _ in range(a.repeats):
            for c in contenders:
                runs[c.title].append(c.run(case))
        figures = found[case] = {title: summary(r) for title, r in runs.items()}
        print(f"\n{TITLES[case]}\n{'':16}{'ms a step':>11}{'processor':>11}{'waiting':>9}{'moving':>9}{'ratio':>8}"
              f"{'of processor time':>19}")
        for k, c in enumerate(contenders):
            f = figures[c.title]
            one = figures[contenders[k - k % 2].title]
            ratio = f"{one['ms'] / f['ms']:8.2f}{one['processor'] / f['processor']:19.2f}" if k % 2 else ""
            print(f"{c.title:16}{f['ms']:11.2f}{f['processor']:11.2f}{f['waiting']:9.2f}{f['moving']:9.2f}{ratio}",
                  flush=True)
    if a.json:
        Path(a.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
