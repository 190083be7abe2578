# SPDX-License-Identifier: MIT
"""How much faster more threads are: the same cases with 1, 2, 4, ... threads, Ebb beside PyTorch."""

import os
import re
import statistics
import tempfile
import time

import contenders

# The work of training, one row for each kind: suite, case, dtype.
CASES = [
    ("engine", "matmul", "f32"),
    ("products", "convolution [64,64,32,32] by [64,64,3,3]", "f32"),
    ("engine", "softmax_cross_entropy", "f32"),
    ("engine", "mse", "f32"),
    ("engine", "user_focal", "f32"),
    ("linear_ce", "BT=2048 H=512 V=32000", "f32"),
    ("linear_ce", "BT=2048 H=512 V=32000", "bf16"),
    ("train", "MLP 784-1024-1024-10, Adam", "f32"),
    ("train", "ResNet-20 on 32x32, SGD", "f32"),
    ("train", "GPT 4 layers, AdamW", "f32"),
]
# The machine's own scaling: nothing can do better.
LIMITS = {
    "multiplications and additions in registers": {"do": "arithmetic", "samples": 9},
    "copy of 96 MiB": {"do": "copy", "bytes": 192 << 20, "samples": 9},
}
PEER = "torch"


def counts():
    """1, 2, 4, ... and all of this machine's processors."""
    most = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return sorted({min(2**k, most) for k in range(most.bit_length() + 1)})


def seconds(contender, request, options):
    answer = contender.ask(**request)
    if "results" not in answer:
        return None
    estimate = max(answer["estimate_s"], 1e-7)
    calls = max(1, min(1000, int(1e-3 / estimate)))
    samples = max(1, min(30, int(options.seconds / (estimate * calls))))
    taken = []
    for _ in range(options.rounds):
        time.sleep(0.05)
        taken += contender.ask(do="time", samples=samples, calls=calls).get("seconds", [])
        if sum(taken) > 4 * options.seconds * options.rounds:
            break
    contender.ask(do="drop")
    return statistics.median(taken) if taken else None


def rows(worker, python, options, log, out_of_time=lambda: False):
    """A row per case. The contenders of one thread count run one after the other, alone on the machine."""
    cases = [c for c in CASES if not options.cases or re.search(options.cases, c[1])]
    cases = [c for c in cases if c[2] in options.dtypes]
    found = [{"suite": suite, "case": case, "dtype": dtype, "threads": counts(), "ebb": [], "peer": []}
             for suite, case, dtype in cases]
    limits = [dict(case=case, title="the machine", dtype="", threads=counts(), ebb=[], peer=[]) for case in LIMITS]
    for threads in counts():
        ebb = contenders.Contender("ebb", "Ebb", [str(worker)], threads, log, options.timeout)
        title, script = contenders.PEERS[PEER]
        peer = contenders.Contender(PEER, title, [python, str(contenders.HERE / "peers" / script[0])], threads, log,
                                    options.timeout)
        for row in found:
            request = {"do": "prepare", "suite": row["suite"], "case": row["case"], "size": "large",
                       "dtype": row["dtype"], "mode": "value+grad"}
            late = out_of_time()
            with tempfile.TemporaryDirectory(prefix="ebb-bench-") as folder:
                inputs = ebb.ask(**dict(request, do="inputs", directory=folder))["inputs"] if not late else None
                row["ebb"].append(seconds(ebb, request, options) if not late else None)
                if PEER in options.peers:
                    row["peer"].append(seconds(peer, dict(request, inputs=inputs), options) if not late else None)
        for row in limits:
            row["ebb"].append(statistics.median(ebb.ask(**LIMITS[row["case"]])["seconds"]))
        ebb.stop()
        peer.stop()
    return found + limits


def efficiency(times, threads):
    """Of each thread count: the time of one thread, divided by that of n threads and by n."""
    return [times[0] / t / n if times and times[0] and t else None for t, n in zip(times, threads)]
