#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Formulas behind a product, value and gradients: time in units of their products, and peak memory.

    bench/strips.py [--rows 4096] [--width 256] [--classes 16384] [--dtype f32] [--device cpu]

Each formula is the plain one a person would write. "products" is the time of the products that any way of computing it
has to make (logits, and the gradients of rows and weights, of each head), timed alone; "held" is the size of one matrix
of logits, which strips never hold.
"""

import argparse
import statistics
import time

import ebb
import numpy as np


def formulas(n, v, rng):
    target = ebb.tensor(rng.integers(0, v, n))
    advantage = ebb.tensor(rng.standard_normal(n).astype(np.float32))
    old = ebb.tensor(-rng.random(n).astype(np.float32) * 3 - 9)

    def logits(t, head=0):
        return t[2 * head] @ t[2 * head + 1].T

    def log_probs(z):
        return ebb.log_softmax(ebb.cast(z, "f32"), -1)

    def chosen(logp):
        return ebb.squeeze(ebb.gather(logp, -1, ebb.unsqueeze(target, -1)), -1)

    def entropy(t):
        logp = log_probs(logits(t))
        return (ebb.exp(logp) * logp).sum(-1).mean() - chosen(logp).mean()

    def jsd(t):
        p, q = log_probs(logits(t)), log_probs(logits(t, 1))
        m = ebb.log(0.5 * (ebb.exp(p) + ebb.exp(q)))
        return 0.5 * ((ebb.exp(p) * (p - m)).sum(-1) + (ebb.exp(q) * (q - m)).sum(-1)).mean()

    def distill(t):
        p, q = log_probs(logits(t) / 2.0), log_probs(logits(t, 1) / 2.0)
        return (ebb.exp(q) * (q - p)).sum(-1).mean()

    def grpo(t):
        ratio = ebb.exp(chosen(log_probs(logits(t))) - old)
        return -ebb.minimum(ratio * advantage, ebb.clamp(ratio, 0.8, 1.2) * advantage).mean()

    def tempered_margin(t):
        z = 30.0 * ebb.tanh(logits(t) / 30.0)
        return ebb.cross_entropy(z, target) + 1e-4 * ebb.square(ebb.logsumexp(z, -1)).mean()

    return {
        "cross_entropy": (1, lambda t: ebb.cross_entropy(logits(t), target)),
        "cross_entropy, smoothed": (1, lambda t: ebb.cross_entropy(logits(t), target, label_smoothing=0.1)),
        "z-loss": (1, lambda t: ebb.square(ebb.logsumexp(logits(t), -1)).mean()),
        "softcap and z-loss": (1, tempered_margin),
        "entropy and log-probability": (1, entropy),
        "focal": (1, lambda t: ebb.softmax_focal_loss(logits(t), target)),
        "GRPO, clipped": (1, grpo),
        "squared hinge of all": (1, lambda t: ebb.square(ebb.relu(1.0 + logits(t))).mean()),
        "JSD of two heads": (2, jsd),
        "distillation at T = 2": (2, distill),
    }


def fastest(f, rounds):
    f()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--classes", type=int, default=16384)
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    o = parser.parse_args()
    rng = np.random.default_rng(1)

    def numbers(*shape):
        x = ebb.tensor((rng.standard_normal(shape) * 0.2).astype(np.float32))
        return ebb.eval(ebb.cast(x, o.dtype).to(o.device)) or ebb.cast(x, o.dtype).to(o.device)

    heads = [numbers(o.rows, o.width), numbers(o.classes, o.width), numbers(o.rows, o.width), numbers(o.classes, o.width)]
    ebb.eval(*heads)
    logits = o.rows * o.classes * np.dtype(np.float32).itemsize / 2**20

    # In strips as well, so that the products themselves fit.
    part = max(1, o.rows // 8)

    def products():
        for first in range(0, o.rows, part):
            x = heads[0][first : first + part]
            dz = ebb.eval(z := x @ heads[1].T) or z
            ebb.eval(dz @ heads[1], dz.T @ x)
        ebb.synchronize(o.device) if hasattr(ebb, "synchronize") else None

    alone = fastest(products, o.rounds)
    print(f"rows {o.rows}, width {o.width}, classes {o.classes}, {o.dtype}: products of a head {alone * 1e3:.0f} ms, "
          f"one matrix of logits {logits:.0f} MiB")
    print(f"{'formula':<30}{'ms':>8}{'/ products':>12}{'peak MiB beyond inputs':>24}")
    for name, (count, f) in formulas(o.rows, o.classes, rng).items():
        both = ebb.value_and_grad(f)
        inputs = heads[: 2 * count]

        def step(both=both, inputs=inputs):
            value, grads = both(inputs)
            ebb.eval(value, *grads)

        before = ebb.memory_stats(o.device)["live"]
        ebb.reset_peak_memory(o.device)
        taken = fastest(step, o.rounds)
        peak = (ebb.memory_stats(o.device)["peak"] - before) / 2**20
        print(f"{name:<30}{taken * 1e3:>8.0f}{taken / (alone * count):>12.2f}{peak:>24.0f}", flush=True)


if __name__ == "__main__":
    main()
