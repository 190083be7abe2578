#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a small eager call costs: operations on a few numbers, computed at once, beside PyTorch on one thread.

    bench/eager.py [--only REGEX] [--rounds 15] [--calls 300] [--processor-time]

The work on the numbers themselves takes a few nanoseconds, so what is timed is everything around it: Python's call, the graph,
its plan, memory for the result. Contenders take turns, a time is the least of the rounds, a ratio is PyTorch's time over Ebb's.
"""

import argparse
import re
import time

import numpy as np
import torch

import ebb

F = torch.nn.functional


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="a regular expression that the names of rows match")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=300, help="in a round")
    parser.add_argument("--processor-time", action="store_true", help="instead of wall time: for a machine that others use, too")
    return parser.parse_args()


def pair(*shape):
    """The same numbers for both."""
    numbers = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    return ebb.tensor(numbers), torch.from_numpy(numbers)


def gradient_of_ebb(loss, x):
    both = ebb.value_and_grad(loss)
    return lambda: ebb.eval(*both(x))


def gradient_of_torch(loss, x):
    leaf = x.clone().requires_grad_(True)
    return lambda: torch.autograd.grad(loss(leaf), leaf)


def rows():
    """(name, Ebb's call, PyTorch's)."""
    (x, tx), (y, ty), (m, tm), (w, tw) = pair(2, 3), pair(2, 3), pair(3, 3), pair(3)
    (middle, t_middle), (line, t_line) = pair(2, 3, 1), pair(7, 131)
    (image, t_image), (grid, t_grid), (kernel, t_kernel) = pair(1, 2, 5, 5), pair(1, 11, 6, 2), pair(2, 2, 3, 3)
    volume, t_volume = pair(1, 1, 2, 2, 2)
    t_target = torch.tensor([0, 2])
    target = ebb.tensor(t_target.numpy())
    return [
        ("x + y [2,3]", lambda: (x + y).eval(), lambda: tx + ty),
        ("x + 1 [2,3]", lambda: (x + 1).eval(), lambda: tx + 1),
        ("exp [2,3]", lambda: ebb.exp(x).eval(), lambda: torch.exp(tx)),
        ("relu [2,3]", lambda: ebb.relu(x).eval(), lambda: torch.relu(tx)),
        ("gelu [2,3]", lambda: ebb.gelu(x).eval(), lambda: F.gelu(tx)),
        ("where [2,3]", lambda: ebb.where(x > 0, x, y).eval(), lambda: torch.where(tx > 0, tx, ty)),
        ("sum [2,3]", lambda: ebb.sum(x).eval(), lambda: tx.sum()),
        ("sum, dim=1 [2,3]", lambda: ebb.sum(x, dim=1).eval(), lambda: torch.sum(tx, dim=1)),
        ("sum, item [2,3]", lambda: ebb.sum(x).item(), lambda: tx.sum().item()),
        ("argmax [2,3]", lambda: ebb.argmax(x, 1).eval(), lambda: tx.argmax(1)),
        ("matmul [2,3] [3,3]", lambda: (x @ m).eval(), lambda: tx @ tm),
        ("x[0] [2,3]", lambda: x[0].eval(), lambda: tx[0]),
        ("permute [2,3]", lambda: ebb.permute(x, (1, 0)).eval(), lambda: tx.permute(1, 0)),
        ("cat [2,3]", lambda: ebb.cat([x, y], 0).eval(), lambda: torch.cat([tx, ty], 0)),
        ("cumsum [2,3]", lambda: ebb.cumsum(x, 1).eval(), lambda: torch.cumsum(tx, 1)),
        ("softmax [2,3]", lambda: ebb.softmax(x, -1).eval(), lambda: torch.softmax(tx, -1)),
        ("softmax over 1 [2,3,1]", lambda: ebb.softmax(middle, 1).eval(), lambda: torch.softmax(t_middle, 1)),
        ("layer_norm [2,3]", lambda: ebb.layer_norm(x, (3,), w, w).eval(), lambda: F.layer_norm(tx, (3,), tw, tw)),
        ("cross_entropy [2,3]", lambda: ebb.cross_entropy(x, target).eval(), lambda: F.cross_entropy(tx, t_target)),
        (
            "cross_entropy and gradient [2,3]",
            gradient_of_ebb(lambda a: ebb.cross_entropy(a, target), x),
            gradient_of_torch(lambda a: F.cross_entropy(a, t_target), tx),
        ),
        (
            "mse_loss and gradient [2,3]",
            gradient_of_ebb(lambda a: ebb.mse_loss(a, y), x),
            gradient_of_torch(lambda a: F.mse_loss(a, ty), tx),
        ),
        ("logcumsumexp [2,3]", lambda: ebb.logcumsumexp(x, 1).eval(), lambda: torch.logcumsumexp(tx, 1)),
        ("logcumsumexp [7,131]", lambda: ebb.logcumsumexp(line, 1).eval(), lambda: torch.logcumsumexp(t_line, 1)),
        ("conv2d [1,2,5,5]", lambda: ebb.conv2d(image, kernel).eval(), lambda: F.conv2d(t_image, t_kernel)),
        ("max_pool3d [1,1,2,2,2]", lambda: ebb.max_pool3d(volume, 2).eval(), lambda: F.max_pool3d(t_volume, 2)),
        (
            "grid_sample [1,2,5,5] to 11x6",
            lambda: ebb.grid_sample(image, grid).eval(),
            lambda: F.grid_sample(t_image, t_grid, align_corners=False),
        ),
    ]


def microseconds(call, calls, clock):
    start = clock()
    for _ in range(calls):
        call()
    return (clock() - start) / calls * 1e6


def main():
    options = parse_arguments()
    clock = time.process_time if options.processor_time else time.perf_counter
    torch.set_num_threads(1)
    ebb.set_num_threads(1)
    print(f"| microseconds, {'processor' if options.processor_time else 'wall'} time | Ebb | PyTorch {torch.__version__} | ratio |")
    print("|---|---|---|---|")
    for name, ours, theirs in rows():
        if not re.search(options.only, name):
            continue
        least = [float("inf"), float("inf")]
        for _ in range(options.rounds + 1):  # the first plans and compiles
            for k, call in enumerate((ours, theirs)):
                least[k] = min(least[k], microseconds(call, options.calls, clock))
        print(f"| {name} | {least[0]:.2f} | {least[1]:.2f} | {least[1] / least[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
