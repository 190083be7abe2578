#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How long a data-parallel step takes on machines that are not at hand.

    bench/cost_model.py                     predictions for 8 to 1,024 GPUs
    bench/cost_model.py --measure           1, 2 and 4 ranks on this machine against the model
    bench/cost_model.py --plot docs/img/scaling.svg

The model, for R ranks, g of them per host:

    compute    T = work of a shard / rate; a third of it is the forward pass, two thirds the backward pass
    a bucket   of n bytes is ready after its share of the backward pass. An ordered sum sends each part of it to its
               owner, an all-to-all, which adds: (R-g)/R of the bucket through the network, (g-1)/R inside of the host:
                   c = (R-1)*overhead + latency + n*max((R-g)/R / network, (g-1)/R / host) + 2*n/memory
               `overhead` is what a rank pays for each message, `latency` for the first to arrive.
    overlap    buckets are sent one after the other, each when it is ready and the one before is through; what is left
               when the backward pass ends is waited for. Without overlap all of them are.
    jitter     the slowest of R ranks takes (1 + sigma*sqrt(2 ln R)) times as long as the mean.
    optimiser  sharded: its state's bytes / (R * memory), then the new parameters go round, an all-gather of all of
               them. Replicated: R times that work, and the all-gather is one of gradients, behind each bucket's sum.

What it leaves out: congestion of the network (all-to-all is hard on a tree of switches with less bandwidth at its
root), stragglers that are not jitter, reading data, checkpoints.
"""

import argparse
import math
import os
import statistics
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from setting import build_worker


@dataclass
class Machine:
    name: str
    rate: float  # floating-point operations per second that a rank reaches
    memory: float  # bytes per second
    host: float  # bytes per second of a rank to others of its host
    network: float  # bytes per second of a rank to other hosts
    latency: float = 10e-6  # seconds of a collective
    overhead: float = 1e-6  # seconds of a rank per message
    per_host: int = 8
    sigma: float = 0.01
    cores: int = 0  # ranks that run at the same time; 0: all of them


@dataclass
class Model:
    name: str
    parameters: float
    flops: float  # of a step's forward and backward pass, for the whole batch
    gradient: int = 4  # bytes of an element
    state: int = 28  # bytes per parameter that a step of Adam reads and writes


@dataclass
class Step:
    compute: float
    exposed: float  # communication that nothing hides
    optimiser: float
    jitter: float

    @property
    def total(self):
        return self.compute + self.exposed + self.optimiser + self.jitter


def collective(machine, ranks, sent):
    """One phase of an exchange in which every rank has `sent` bytes, a part for each rank."""
    g = min(machine.per_host, ranks)
    outside, inside = (ranks - g) / ranks / machine.network, (g - 1) / ranks / machine.host
    return (ranks - 1) * machine.overhead + machine.latency + sent * max(outside, inside)


def step(machine, model, ranks, bucket=8 << 20, overlap=True, sharded=True):
    turns = max(1.0, ranks / machine.cores) if machine.cores else 1.0  # more ranks than cores take turns
    compute = model.flops / ranks / machine.rate * turns
    gradients = model.parameters * model.gradient
    exposed = optimiser = 0.0
    if ranks > 1:
        buckets = max(1, math.ceil(gradients / bucket))
        n = gradients / buckets
        each = (collective(machine, ranks, n) * (1 if sharded else 2) + 2 * n / machine.memory) * turns
        backward = compute * 2 / 3
        through = 0.0
        for k in range(buckets):
            ready = backward * (k + 1) / buckets if overlap else backward
            through = max(ready, through) + each
        exposed = through - backward
    optimiser = model.parameters * model.state / machine.memory / (ranks if sharded else 1) * turns
    if ranks > 1 and sharded:
        optimiser += collective(machine, ranks, gradients) * turns
    jitter = compute * machine.sigma * math.sqrt(2 * math.log(ranks)) if ranks > 1 else 0.0
    return Step(compute, exposed, optimiser, jitter)


def efficiency(machine, model, ranks, **options):
    """Of weak scaling: every rank has the work that one has."""
    alone = step(machine, model, 1).total
    return alone / step(machine, replace(model, flops=model.flops * ranks), ranks, **options).total


H100 = Machine("H100, NVLink 4, 400 Gbit/s per GPU", rate=400e12, memory=2.5e12, host=350e9, network=45e9)
ETHERNET = replace(H100, name="100 Gbit/s per host", network=11e9 / 8, latency=30e-6, overhead=3e-6)
GPT = [
    Model("GPT, 124 M parameters", 124e6, 6 * 124e6 * 32 * 1024),
    Model("GPT, 1.3 G parameters", 1.3e9, 6 * 1.3e9 * 8 * 2048),
]
RANKS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]


def predictions():
    for machine in (H100, ETHERNET):
        for model in GPT:
            print(f"\n{model.name}, {machine.name}; a shard of {model.flops / 6 / model.parameters:,.0f} tokens per GPU")
            print(f"{'GPUs':>6}{'ms a step':>11}{'exposed':>9}{'optimiser':>11}{'efficiency':>12}{'buckets of 64 MB':>18}"
                  f"{'no overlap':>12}")
            for ranks in RANKS[3:]:
                s = step(machine, replace(model, flops=model.flops * ranks), ranks)
                ways = [efficiency(machine, model, ranks, **w) for w in ({}, {"bucket": 64 << 20}, {"overlap": False})]
                print(f"{ranks:6}{1e3 * s.total:11.1f}{1e3 * s.exposed:9.1f}{1e3 * s.optimiser:11.1f}"
                      f"{ways[0]:12.2f}{ways[1]:18.2f}{ways[2]:12.2f}")
            breaks = next((r for r in RANKS if efficiency(machine, model, r) < 0.8), None)
            print(f"falls below 0.80 at {breaks} GPUs" if breaks else "stays above 0.80")


def plot(path):
    """Efficiency over the number of GPUs, as SVG."""
    width, height, left, top = 640, 360, 56, 16
    x = lambda ranks: left + (width - left - 16) * math.log2(ranks) / 10
    y = lambda e: top + (height - top - 44) * (1 - e)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
             'font-size="12">', '<rect width="100%" height="100%" fill="white"/>']
    for e in (0, 0.2, 0.4, 0.6, 0.8, 1):
        lines.append(f'<path d="M{left} {y(e):.1f}H{width - 16}" stroke="#ddd"/>'
                     f'<text x="{left - 8}" y="{y(e) + 4:.1f}" text-anchor="end">{e:.1f}</text>')
    for ranks in RANKS:
        lines.append(f'<text x="{x(ranks):.1f}" y="{height - 26}" text-anchor="middle">{ranks}</text>')
    lines.append(f'<text x="{(left + width) / 2}" y="{height - 8}" text-anchor="middle">GPUs</text>')
    colours = iter(["#1f5fa8", "#7fb2e5", "#b3541e", "#e8a87c"])
    for k, (machine, model) in enumerate((m, g) for m in (H100, ETHERNET) for g in GPT):
        colour = next(colours)
        points = " ".join(f"{x(r):.1f},{y(efficiency(machine, model, r)):.1f}" for r in RANKS)
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines.append(f'<text x="{left + 12}" y="{y(0.34) + 16 * k:.1f}" fill="{colour}">{model.name}, '
                     f'{machine.name}</text>')
    Path(path).write_text("\n".join([*lines, "</svg>"]) + "\n")


CASES = {  # parameters, and multiplications and additions of a step for the batch of bench/ranks/main.cc
    "mlp": Model("MLP", 1.863e6, 6 * 1.863e6 * 128),
    "gpt": Model("GPT", 19.6e6, 6 * 11.4e6 * 1024),
}


def measured(program, case, ranks, steps):
    from distributed import answer, mpirun, start

    command = [str(program), case, "4", "1", str(steps), "owners"]
    r = answer(start([*mpirun(ranks), *command] if ranks > 1 else command))
    return statistics.quantiles(r["times"], n=4)[0]  # the quick quarter: other work on the machine is not in the model


def copy_bandwidth():
    """Bytes per second that one core reads and writes."""
    source, target = bytearray(1 << 27), bytearray(1 << 27)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        target[:] = source
        times.append(time.perf_counter() - start)
    return 2 * len(source) / min(times)


def measure(repeats):
    """Rate and bandwidth come from runs with 1 and 2 ranks; 4 ranks, which take turns on fewer cores, are predicted."""
    memory, cores = copy_bandwidth(), len(os.sched_getaffinity(0))
    print(f"{cores} cores, {memory / 1e9:.1f} GB/s of memory")
    program = build_worker(["ebb_bench_ranks"]) / "bench" / "ebb_bench_ranks"
    for case, model in CASES.items():
        times = {ranks: [] for ranks in (1, 2, 4)}
        for _ in range(repeats):
            for ranks in times:
                times[ranks].append(measured(program, case, ranks, 40 if case == "mlp" else 4))
        found = {ranks: min(t) for ranks, t in times.items()}
        here = Machine("this machine", 1, memory, 1, 1, latency=50e-6, overhead=5e-6, per_host=1 << 20, sigma=0.03,
                       cores=cores)
        here.rate = model.flops / (found[1] - model.parameters * model.state / here.memory)
        # The host's bandwidth from two ranks, by bisection: time falls as it grows.
        low, high = 1e7, 1e12
        for _ in range(60):
            here.host = math.sqrt(low * high)
            low, high = (here.host, high) if step(here, model, 2, overlap=False).total > found[2] else (low, here.host)
        print(f"\n{model.name}: {here.rate / 1e9:.0f} GFLOP/s and {here.host / 1e9:.1f} GB/s between ranks")
        for ranks in (1, 2, 4):
            s = step(here, model, ranks, overlap=False)
            print(f"  {ranks} ranks: measured {1e3 * found[ranks]:8.1f} ms, model {1e3 * s.total:8.1f} ms"
                  f"{'   (fitted)' if ranks < 4 else ''}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--measure", action="store_true")
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--plot")
    a = p.parse_args()
    if a.measure:
        measure(a.repeats)
    elif a.plot:
        plot(a.plot)
    else:
        predictions()


if __name__ == "__main__":
    main()
