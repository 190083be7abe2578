# SPDX-License-Identifier: MIT
"""Suite `latency`: from a new formula to its first value and gradient, without anything compiled before.

Each contender is measured in a process of its own whose caches are empty folders, and in a second one that finds there
what the first compiled. A first formula is not counted: it starts the compilers themselves.

    latency.py ebb|compile cpu|cuda     prints the seconds of each formula, as JSON
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

FORMULAS = [  # a, b: [n]; none is the structure of another
    lambda f, a, b: (a * b).sum(),
    lambda f, a, b: f.log(f.cosh(a - b)).mean(),
    lambda f, a, b: (f.exp(a) - b * a).mean(),
    lambda f, a, b: (f.sigmoid(a) * b + (1 - f.sigmoid(a)) * (1 - b)).mean(),
    lambda f, a, b: f.sqrt(1 + (a - b) * (a - b)).mean(),
    lambda f, a, b: (f.tanh(a) * f.sin(b)).mean() + f.abs(a).mean(),
]


def measured(who, device):
    import torch

    import ebb

    x, y = (torch.rand(1 << (12 if device == "cpu" else 22), device=device) for _ in range(2))
    seconds = []
    for formula in FORMULAS:
        start = time.perf_counter()
        if who == "ebb":
            given = [ebb.from_dlpack(x), ebb.from_dlpack(y)]
            value, _ = ebb.compile(ebb.value_and_grad(lambda a, b: formula(ebb, a, b)))(*given)
        else:
            loss = lambda a, b: formula(torch, a, b)
            _, value = torch.compile(torch.func.grad_and_value(loss), fullgraph=True)(x, y)
        value.item()
        seconds.append(time.perf_counter() - start)
    return seconds


def in_new_process(who, device, folder):
    environment = dict(os.environ, XDG_CACHE_HOME=folder, TORCHINDUCTOR_CACHE_DIR=os.path.join(folder, "inductor"),
                       TRITON_CACHE_DIR=os.path.join(folder, "triton"))
    command = [sys.executable, "-P", os.path.abspath(__file__), who, device]  # -P: no module of this folder is torch's
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1][:160])
    return json.loads(done.stdout.splitlines()[-1])


def latency(run):
    from gpu.contenders import first_line
    from gpu.names import TITLES

    if run.options.part:  # nothing must be compiled before
        return
    run.record.check_time()
    case = "a new formula of two arrays, first value and gradient"
    cold, warm = {}, {}
    for who in run.chosen({"ebb": None, "compile": None}):
        with tempfile.TemporaryDirectory(prefix="ebb-bench-") as folder:
            for results in (cold, warm):
                result = results[who] = {"title": TITLES[who]}
                try:
                    seconds = in_new_process(who, run.machine.device.type, folder)
                    result.update(median_s=statistics.median(seconds[1:]), low_s=min(seconds[1:]), high_s=max(seconds[1:]),
                                  first_s=seconds[0])
                except Exception as error:
                    result["reason"] = first_line(error)
    for what, results in (("nothing compiled before", cold), ("compiled by an earlier process", warm)):
        run.record.add({"suite": "latency", "case": f"{case}, {what}", "bytes": None, "results": results,
                        "show_times": True})


if __name__ == "__main__":
    print(json.dumps(measured(*sys.argv[1:])))
