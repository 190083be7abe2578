# SPDX-License-Identifier: MIT
"""The side of a peer in the conversation with compare.py: one JSON request a line, one answer a line.

A peer is an object with
  load(array, dtype, wide)           a numpy array as the framework's own, on the CPU; in f64 if `wide`
  prepare(case, inputs, wrt, mode)   a function of no arguments that computes and waits: [value, gradients...]
  to_numpy(result)                   f64
  training(case, x, y, parameters)   a function of no arguments that makes a step of training and returns its loss
  forget()                           returns cached memory
  allocated(run)                     bytes that its allocator handed out at the peak of a call; None if it does not tell
It raises Unavailable, with the reason, for a case it cannot run.
"""

import ctypes
import gc
import json
import sys
import time

import numpy as np


JUDGED_STEPS = 5  # of a training, as many as worker/measure.cc


class Unavailable(Exception):
    pass


def process_bytes(key):
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith(key):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def reset_process_peak():
    try:
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
    except OSError:
        pass


def read_input(description):
    """The elements as numpy has them; bf16 as its 16 bits."""
    kinds = {"f64": np.float64, "f32": np.float32, "bf16": np.uint16, "i64": np.int64, "bool": np.bool_}
    return np.fromfile(description["file"], kinds[description["dtype"]]).reshape(description["shape"])


def bf16_to_f32(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def summary(array):
    flat = np.asarray(array, np.float64).reshape(-1)
    last = max(flat.size - 1, 0)
    return {
        "count": int(flat.size),
        "norm": float(np.sqrt(np.dot(flat, flat))),
        "elements": [float(flat[k * last // 7]) for k in range(8)] if flat.size else [],
    }


def return_memory(peer):
    gc.collect()
    peer.forget()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except AttributeError:
        pass


def first_call(peer, run, suite):
    training = suite == "train"
    start = time.perf_counter()
    results = run()
    first = getattr(peer, "compile_s", None) or time.perf_counter() - start
    if training:
        losses = [peer.to_numpy(results)] + [peer.to_numpy(run()) for _ in range(JUDGED_STEPS - 1)]
        checks = [summary(losses)]
    else:
        checks = [summary(peer.to_numpy(r)) for r in results]
    del results
    run()  # some frameworks finish compiling on the second call
    return_memory(peer)
    reset_process_peak()
    before = 0 if training else process_bytes("VmRSS:")  # of a training the whole process counts
    start = time.perf_counter()
    results = run()
    again = time.perf_counter() - start
    peak = max(process_bytes("VmHWM:") - before, 0)
    del results
    if suite in ("linear_ce", "autograd"):  # memory that an allocator kept from the call before does not show in the process
        peak = max(peak, peer.allocated(run) or 0)
    return {"first_s": first, "estimate_s": again, "peak_bytes": peak, "results": checks}


def timed(run, samples, calls):
    seconds = []
    for _ in range(samples):
        start = time.perf_counter()
        for _ in range(calls):
            run()
        seconds.append((time.perf_counter() - start) / calls)
    return seconds


def serve(peer):
    out = sys.stdout
    sys.stdout = sys.stderr  # what a framework prints is not an answer
    run = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "prepare":
                run = inputs = None
                wide, training = request.get("reference", False), request["suite"] == "train"
                inputs = [peer.load(read_input(i), i["dtype"], wide) for i in request["inputs"]]
                if training:
                    parameters = {i["name"]: t for i, t in zip(request["inputs"], inputs) if i["differentiate"]}
                    run = peer.training(request["case"], inputs[0], inputs[1], parameters)
                    parameters = inputs = None
                else:
                    wrt = [k for k, i in enumerate(request["inputs"]) if i["differentiate"]]
                    run = peer.prepare(request["case"], inputs, wrt, request["mode"])
                answer = first_call(peer, run, request["suite"])
            elif request["do"] == "time":
                answer = {"seconds": timed(run, request["samples"], request["calls"])}
            elif request["do"] == "drop":
                run = inputs = None
                return_memory(peer)
                answer = {}
            else:
                answer = {"error": f"cannot do {request['do']}"}
        except Unavailable as reason:
            answer = {"unavailable": str(reason)}
        except Exception as e:  # an answer all the same: the comparison goes on without this row
            answer = {"error": f"{type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}"}
        out.write(json.dumps(answer) + "\n")
        out.flush()
