# SPDX-License-Identifier: MIT
"""Two days in a few minutes: what grows, leaks or slows down when Ebb is used for long.

    load.py [--scale 0.01]

100,000 training steps, 10,000 exchanges with NumPy (and PyTorch, where it is installed), 1,000 plans more than the cache
holds, 64 threads. Prints memory, descriptors, threads and the percentiles of small calls, and ends with 1 where something
grew."""

import argparse
import gc
import os
import sys
import threading
import time

import numpy as np

import ebb


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def threads():
    return len(os.listdir("/proc/self/task"))


class Watch:
    """Compares what is in use before and after; a first part of the work warms everything up."""

    failed = False

    def __init__(self, name, resident_slack=8 << 20):
        self.name, self.slack = name, resident_slack
        gc.collect()
        self.start = time.perf_counter()
        self.before = self.now()

    @staticmethod
    def now():
        return {"pool": ebb.memory_stats()["live"], "resident": resident(), "files": descriptors(), "threads": threads()}

    def finish(self, latencies=()):
        gc.collect()
        after = self.now()
        grown = {key: after[key] - self.before[key] for key in after}
        text = ", ".join(f"{key} {value:+,}" for key, value in grown.items())
        print(f"{self.name}: {time.perf_counter() - self.start:.1f} s; {text}")
        if len(latencies):
            p = np.percentile(np.asarray(latencies) * 1e6, [50, 90, 99, 99.9])
            first, last = (np.median(part) * 1e6 for part in np.array_split(np.asarray(latencies), 10)[:: 9])
            print(
                f"    latency in µs: median {p[0]:.1f}, 90 % {p[1]:.1f}, 99 % {p[2]:.1f}, 99.9 % {p[3]:.1f}; "
                f"median of the first tenth {first:.1f}, of the last {last:.1f}"
            )
        if grown["pool"] != 0 or grown["files"] != 0 or grown["threads"] > 0 or grown["resident"] > self.slack:
            print("    GREW")
            Watch.failed = True


def training(steps):
    x, y = ebb.rand((32, 16)), ebb.rand((32, 1))
    model = ebb.nn.Sequential(ebb.nn.Linear(16, 32), ebb.nn.Tanh(), ebb.nn.Linear(32, 1))
    optimizer = ebb.optim.Adam(lr=1e-3)

    def step():
        loss = ebb.mse_loss(model(x), y)
        optimizer.step(model, ebb.backward(loss))
        return loss

    for _ in range(200):
        float(step())
    latencies = np.zeros(steps)  # made before memory is measured
    latencies[:] = 1
    watch = Watch(f"{steps:,} training steps")
    for k in range(steps):
        start = time.perf_counter()
        float(step())
        latencies[k] = time.perf_counter() - start
    watch.finish(latencies)


def exchanges(count):
    try:
        import torch
    except ImportError:
        torch = None

    def once(k):
        a = np.full((17, 5), k, dtype=np.float32)
        t = ebb.from_numpy(a) if hasattr(ebb, "from_numpy") else ebb.asarray(a)
        assert float((t + 1).sum()) == 85 * (k + 1)
        assert np.asarray(t)[0, 0] == k
        assert np.from_dlpack(t + 0)[0, 0] == k
        if torch is not None:
            assert float(torch.from_dlpack(t + 0)[0, 0]) == k

    for k in range(50):
        once(k)
    watch = Watch(f"{count:,} exchanges with NumPy{' and PyTorch' if torch else ''}")
    for k in range(count):
        once(k % 1000)
    watch.finish()


def plans(count):
    def once(k):
        x = ebb.ones((k % 50 + 1, k // 50 + 1))
        return float((ebb.exp(x) * 2 - x).sum())

    for k in range(1024 + count):  # the cache is full
        once(k)
    watch = Watch(f"{1024 + count:,} plans, {count:,} more than the cache holds", 32 << 20)
    for k in range(1024 + count):
        once(k)
    watch.finish()


def many_threads(count, rounds):
    failures = []

    def work(seed):
        try:
            for k in range(rounds):
                x = ebb.full((100,), float(seed))
                assert float((x * 2 + k).sum()) == 100 * (2 * seed + k)
        except BaseException as error:  # noqa: BLE001: a thread that fails must be heard
            failures.append(error)

    def once():
        workers = [threading.Thread(target=work, args=(k,)) for k in range(count)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()

    once()
    watch = Watch(f"{count} threads, three times", 64 << 20)
    for _ in range(3):
        once()
    watch.finish()
    if failures:
        print("    FAILED", failures[0])
        Watch.failed = True


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, default=1, help="a share of the work, e.g. 0.01")
    scale = parser.parse_args().scale
    training(max(200, int(100_000 * scale)))
    exchanges(max(100, int(10_000 * scale)))
    plans(max(20, int(1000 * scale)))
    many_threads(64, max(20, int(2000 * scale)))
    return 1 if Watch.failed else 0


if __name__ == "__main__":
    sys.exit(main())
