#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Formulas behind a product, value and gradients: time in units of their products, and peak memory.

    bench/strips.py [--rows 4096] [--width 256] [--classes 16384] [--dtype f32] [--device cpu]
    bench/strips.py --pairs 32768 --width 1024 ...

Each formula is the plain one a person would write. "products" is the time of the products that any way of computing it
has to make (logits, and the gradients of rows and weights, of each head), timed alone. --pairs takes losses of a batch
of pairs instead, whose matrix is that of the similarities. --compiled times the plain formulas of three of them
under torch.compile instead.
"""

import argparse
import statistics
import time

import ebb
import numpy as np


def targets(n, v):
    rng = np.random.default_rng(1)
    return rng.integers(0, v, n), rng.standard_normal(n).astype(np.float32), -rng.random(n).astype(np.float32) * 3 - 9


def formulas(n, v, device):
    target, advantage, old = (ebb.tensor(t).to(device) for t in targets(n, v))

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
        "linear_cross_entropy, kernels of its own": (1, lambda t: ebb.linear_cross_entropy(t[0], t[1], target)),
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


def pair_formulas():
    def clip(t):
        z = ebb.cast(t[0] @ t[1].T, "f32") * 0.1
        same = ebb.arange(t[0].shape[0], device=t[0].device)
        return ebb.cross_entropy(z, same) + ebb.cross_entropy(z.T, same)

    return {
        "SigLIP": (1, lambda t: ebb.siglip_loss(t[0], t[1])),
        "InfoNCE": (1, lambda t: ebb.info_nce(t[0], t[1])),
        "CLIP, rows and columns": (1, clip),
    }


def compiled_formulas(n, v, device):
    """Three of the formulas in PyTorch's functions."""
    import torch
    import torch.nn.functional as F

    target, advantage, old = (torch.as_tensor(t).to(device) for t in targets(n, v))

    def chosen(logp):
        return logp.gather(-1, target[:, None])[:, 0]

    def entropy(x, w):
        logp = F.log_softmax((x @ w.T).float(), -1)
        return (logp.exp() * logp).sum(-1).mean() - chosen(logp).mean()

    def grpo(x, w):
        ratio = (chosen(F.log_softmax((x @ w.T).float(), -1)) - old).exp()
        return -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()

    return {
        "cross_entropy": lambda x, w: F.cross_entropy((x @ w.T).float(), target),
        "entropy and log-probability": entropy,
        "GRPO, clipped": grpo,
    }


def median_time(f, rounds):
    f()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def compiled_rows(o, alone):
    import torch

    torch.manual_seed(1)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[o.dtype]
    x = (torch.randn(o.rows, o.width, device=o.device) * 0.2).to(dtype).requires_grad_()
    w = (torch.randn(o.classes, o.width, device=o.device) * 0.2).to(dtype).requires_grad_()
    on_gpu = o.device != "cpu"
    for name, f in compiled_formulas(o.rows, o.classes, o.device).items():
        g = torch.compile(f)

        def step(g=g):
            x.grad = w.grad = None
            g(x, w).backward()
            if on_gpu:
                torch.cuda.synchronize()

        step()
        if on_gpu:
            x.grad = w.grad = None
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        taken = median_time(step, o.rounds)
        peak = (torch.cuda.max_memory_allocated() - before) / 2**20 if on_gpu else float("nan")
        print(f"{name + ', torch.compile':<44}{taken * 1e3:>8.1f}{taken / alone:>12.2f}{peak:>12.0f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--classes", type=int, default=16384)
    parser.add_argument("--pairs", type=int, default=0, help="losses of so many pairs instead of those behind a head")
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compiled", action="store_true", help="three formulas in PyTorch under torch.compile instead")
    o = parser.parse_args()
    if o.pairs:
        o.rows = o.classes = o.pairs
    on_gpu = o.device != "cpu"

    def numbers(*shape):
        return ebb.cast(ebb.randn(shape, device=o.device) * 0.2, o.dtype)

    ebb.manual_seed(1)
    heads = []
    for _ in range(1 if o.pairs else 2):
        heads += [numbers(o.rows, o.width), numbers(o.classes, o.width)]
        ebb.eval(*heads)
    size = 4 if o.dtype == "f32" else 2
    matrix, gradients = (k * size / 2**20 for k in (o.rows * o.classes, (o.rows + o.classes) * o.width))

    def finish(*values):
        ebb.eval(*values)
        if on_gpu:
            ebb.cuda.synchronize(o.device)

    # In parts as well, so that the products themselves fit. Of sizes in eights, which are the fastest of a GPU: that an
    # odd number of classes is no slower is for the formulas to show.
    part = max(1, o.rows // 8)
    of_products = numbers(-(-o.classes // 8) * 8, o.width)
    ebb.eval(of_products)

    def products():
        for first in range(0, o.rows, part):
            x = heads[0][first : first + part]
            z = x @ of_products.T
            ebb.eval(z)
            ebb.eval(z @ of_products, z.T @ x)
        finish()

    alone = median_time(products, o.rounds)
    del of_products
    print(f"rows {o.rows}, width {o.width}, classes {o.classes}, {o.dtype}: products of a head {alone * 1e3:.1f} ms, "
          f"the matrix {matrix:.0f} MiB, gradients of a head {gradients:.0f} MiB; MiB beyond inputs")
    print(f"{'formula':<44}{'ms':>8}{'/ products':>12}{'peak MiB':>12}")
    if o.compiled:
        return compiled_rows(o, alone)
    listed = pair_formulas() if o.pairs else formulas(o.rows, o.classes, o.device)
    for name, (count, f) in listed.items():
        both = ebb.value_and_grad(f)
        inputs = heads[: 2 * count]

        def step(both=both, inputs=inputs):
            value, grads = both(inputs)
            finish(value, *grads)

        before = ebb.memory_stats(o.device)["live"]
        ebb.reset_peak_memory(o.device)
        taken = median_time(step, o.rounds)
        peak = (ebb.memory_stats(o.device)["peak"] - before) / 2**20
        print(f"{name:<44}{taken * 1e3:>8.1f}{taken / (alone * count):>12.2f}{peak:>12.0f}", flush=True)


if __name__ == "__main__":
    main()
