# SPDX-License-Identifier: MIT
"""Suite `small`: what a call costs where there is next to nothing to compute."""

import torch
import torch.nn.functional as F

import ebb
from gpu.comparison import exact_results, measure
from gpu.contenders import GRAPHS, compiled_step, eager_step, ebb_step


def small(run):
    machine = run.machine
    x, y = (torch.randn(1000, device=machine.device) for _ in range(2))
    w = [torch.randn(s, device=machine.device) * 0.05 for s in ((784, 256), (256, 10))]
    batch = torch.randn(64, 784, device=machine.device)
    labels = torch.randint(0, 10, (64,), device=machine.device)
    cases = {
        "mse_loss f32, 1000 elements": (ebb.mse_loss, F.mse_loss, [x, y], (0,)),
        "MLP 784-256-10 f32, batch 64": (lambda a, b, x, t: ebb.cross_entropy(ebb.relu(x @ a) @ b, t),
                                         lambda a, b, x, t: F.cross_entropy(torch.relu(x @ a) @ b, t),
                                         [*w, batch, labels], (0, 1)),
    }
    for name, (mine, theirs, arguments, wrt) in cases.items():
        for waits in (False, True):
            case = f"{name}, {'until the result is there' if waits else 'one call after the other'}"
            run.record.check_time()
            if not run.options.wanted(case):
                continue
            makers = {"ebb": ebb_step(mine, arguments, wrt), "eager": eager_step(theirs, arguments, wrt),
                      "compile": compiled_step([theirs], arguments, wrt)}
            if machine.on_gpu:
                makers["graphs"] = compiled_step([theirs], arguments, wrt, GRAPHS)
            if waits:
                makers = {key: waiting(machine, key, make) for key, make in makers.items()}
            results = measure(machine, run.options, run.chosen(makers), exact_results(theirs, arguments, wrt), 1e-3)
            run.record.add({"suite": "small", "case": case, "bytes": None, "results": results, "show_times": True})


def waiting(machine, key, make):
    wait = ebb.cuda.synchronize if key == "ebb" else torch.cuda.synchronize

    def made():
        call = make()

        def and_wait():
            result = call()
            if machine.on_gpu:
                wait()
            return result

        return and_wait

    return made
