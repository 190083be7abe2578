#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training steps of a ResNet-20 and a small GPT under budgets of memory: peak, processor time, and whether the bits are the same.

    bench/memory_budget.py [--rounds 7]
    bench/memory_budget.py --device cuda --gpt2     GPT-2 124M in bf16 instead, of 8 x 1,024 tokens; wall time there
"""

import argparse
import time

import ebb
import numpy as np


def resnet(width=16, blocks=3, batch=64):
    params, layers, channels = [], [], width

    def conv(i, o):
        params.extend([ebb.randn((o, i, 3, 3)) * (2 / (9 * i)) ** 0.5, ebb.ones((o,)), ebb.zeros((o,))])
        return len(params) - 3

    first = conv(3, width)
    for stage in range(3):
        for k in range(blocks):
            out = width << stage
            layers.append((conv(channels, out), conv(out, out), 2 if stage and not k else 1))
            channels = out
    params.append(ebb.randn((10, channels)) * 0.1)
    x, y = ebb.randn((batch, 3, 32, 32)), ebb.tensor(np.arange(batch) % 10).to(ebb.default_device())
    ebb.eval(x, *params)

    def loss(p):
        def layer(h, k, stride=1):
            z = ebb.conv2d(h, p[k], stride=stride, padding=1)
            d = z - z.mean((0, 2, 3), keepdim=True)
            normal = d * ebb.rsqrt((d * d).mean((0, 2, 3), keepdim=True) + 1e-5)
            return normal * p[k + 1].reshape(1, -1, 1, 1) + p[k + 2].reshape(1, -1, 1, 1)

        h = ebb.relu(layer(x, first))
        for a, b, stride in layers:
            t = layer(ebb.relu(layer(h, a, stride)), b)
            if stride == 2:
                half = h[:, :, ::2, ::2]
                h = ebb.cat([half, ebb.zeros_like(half)], 1)
            h = ebb.relu(h + t)
        return ebb.cross_entropy(h.mean((2, 3)) @ p[-1].T, y)

    return loss, params


def gpt(layers=4, d=128, heads=4, batch=8, length=128, classes=512, dtype="f32"):
    params = []

    def weight(*shape):
        params.append(ebb.cast(ebb.randn(shape) * 0.05, dtype))
        return len(params) - 1

    def norm():
        params.extend([ebb.ones((d,), dtype), ebb.zeros((d,), dtype)])
        return len(params) - 2

    words, places = weight(classes, d), weight(length, d)
    blocks = [
        (norm(), weight(3 * d, d), weight(d, d), norm(), weight(4 * d, d), weight(d, 4 * d)) for _ in range(layers)
    ]
    last = norm()
    ebb.eval(*params)
    rng = np.random.default_rng(0)
    ids, y = (ebb.tensor(rng.integers(0, classes, s)).to(ebb.default_device()) for s in ((batch, length), batch * length))

    def loss(p):
        def normed(h, k):
            return ebb.layer_norm(h, (d,), p[k], p[k + 1])

        h = ebb.embedding(ids, p[words]) + p[places]
        for a, qkv, out, b, up, down in blocks:
            z = normed(h, a) @ p[qkv].T
            parts = (z[..., k * d : (k + 1) * d].reshape(batch, length, heads, d // heads) for k in range(3))
            seen = ebb.scaled_dot_product_attention(*(t.transpose(1, 2) for t in parts), is_causal=True)
            h = h + seen.transpose(1, 2).reshape(batch, length, d) @ p[out].T
            h = h + ebb.gelu(normed(h, b) @ p[up].T) @ p[down].T
        return ebb.cross_entropy((normed(h, last) @ p[words].T).reshape(-1, classes), y)

    return loss, params


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--gpt2", action="store_true", help="GPT-2 124M in bf16 instead of the two small networks")
    parser.add_argument("--percent", default="100,90,80,70,60,50", help="budgets, of the peak without one")
    o = parser.parse_args()
    ebb.manual_seed(1)
    ebb.set_default_device(o.device)
    on_gpu = o.device != "cpu"
    clock = time.perf_counter if on_gpu else time.process_time
    networks = {"ResNet-20": resnet, "GPT": gpt}
    if o.gpt2:
        networks = {"GPT-2": lambda: gpt(layers=12, d=768, heads=12, length=1024, classes=50257, dtype="bf16")}
    print(f"{'':<10}{'budget':>8}{'MiB':>8}{'peak / budget':>16}{'ms':>8}{'time':>8}  bits")
    for name, make in networks.items():
        loss, params = make()
        step = ebb.value_and_grad(loss)

        def measure(rounds):
            taken = []
            for _ in range(rounds):
                value = grads = None
                start = clock()
                value, grads = step(params)
                ebb.eval(value, *grads)
                if on_gpu:
                    ebb.cuda.synchronize(o.device)
                taken.append(clock() - start)
            return min(taken), [np.array(ebb.cast(t, "f32").cpu().numpy()) for t in (value, *grads)]

        measure(1)
        ebb.reset_peak_memory()
        alone, expected = measure(o.rounds)
        peak = ebb.memory_stats()["peak"]
        print(f"{name:<10}{'none':>8}{peak / 2**20:>8.1f}{'':>16}{alone * 1e3:>8.1f}", flush=True)
        for percent in map(int, o.percent.split(",")):
            budget = peak * percent // 100
            with ebb.memory_budget(budget):
                measure(1)
                ebb.reset_peak_memory()
                taken, found = measure(o.rounds)
                most = ebb.memory_stats()["peak"]
            bits = "same" if all(np.array_equal(a, b) for a, b in zip(expected, found)) else "other"
            print(f"{name:<10}{percent:>6} %{budget / 2**20:>8.1f}{most / budget:>16.2f}{taken * 1e3:>8.1f}{taken / alone:>8.2f}  {bits}", flush=True)


if __name__ == "__main__":
    main()
