"""How much faster more threads are: the same cases with 1, 2, 4, ... threads, Ebb beside PyTorch."""

import os
import statistics
import tempfile
import time

import contenders

# The work of training, one row for each kind: suite, case, dtype.
CASES = [
    ("engine", "mse", "f32"),
    ("engine", "softmax_cross_entropy", "f32"),
    ("engine", "user_focal", "f32"),
    ("engine", "matmul", "f32"),
    ("linear_ce", "BT=2048 H=512 V=32000", "f32"),
    ("linear_ce", "BT=2048 H=512 V=32000", "bf16"),
    ("train", "MLP 784-1024-1024-10, Adam", "f32"),
    ("train", "ResNet-20 on 32x32, SGD", "f32"),
    ("train", "GPT 4 layers, AdamW", "f32"),
]
PEER = "torch"


def counts():
    """1, 2, 4, ... and all of this machine's processors."""
    most = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return sorted({min(2**k, most) for k in range(most.bit_length() + 1)})


def seconds(contender, request, rounds):
    answer = contender.ask(**request)
    if "results" not in answer:
        return None
    calls = max(1, min(1000, int(1e-3 / max(answer["estimate_s"], 1e-7))))
    taken = []
    for _ in range(rounds):
        time.sleep(0.05)
        taken += contender.ask(do="time", samples=5, calls=calls).get("seconds", [])
    contender.ask(do="drop")
    return statistics.median(taken) if taken else None


def rows(worker, python, options, log):
    """Yields a row per case; the contenders of one thread count run one after the other, alone on the machine."""
    with_peer = PEER in options.peers
    for suite, case, dtype in CASES:
        row = {"suite": suite, "case": case, "dtype": dtype, "threads": counts(), "ebb": [], "peer": []}
        for threads in row["threads"]:
            ebb = contenders.Contender("ebb", "Ebb", [str(worker)], threads, log, options.timeout)
            request = {"do": "prepare", "suite": suite, "case": case, "size": "large", "dtype": dtype, "mode": "value+grad"}
            with tempfile.TemporaryDirectory(prefix="ebb-bench-") as folder:
                inputs = ebb.ask(**dict(request, do="inputs", directory=folder))["inputs"]
                row["ebb"].append(seconds(ebb, request, options.rounds))
                ebb.stop()
                if with_peer:
                    script = str(contenders.HERE / "peers" / contenders.PEERS[PEER][1][0])
                    peer = contenders.Contender(PEER, contenders.PEERS[PEER][0], [python, script], threads, log,
                                                options.timeout)
                    row["peer"].append(seconds(peer, dict(request, inputs=inputs), options.rounds))
                    peer.stop()
        yield row


def efficiency(times, threads):
    """Of each thread count: the time of one thread, divided by that of n threads and by n."""
    return [times[0] / t / n if times and times[0] and t else None for t, n in zip(times, threads)]
