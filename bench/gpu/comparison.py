# SPDX-License-Identifier: MIT
"""A row: contenders are made, checked against f64 and timed in turns. Whoever cannot or is wrong is left out, and why."""

import time

import torch

import ebb
from gpu import timing
from gpu.contenders import AUTOTUNED, compiled_step, eager_step, ebb_step, first_line
from gpu.names import TITLES

PEERS_MAY = 5  # times the error that Ebb may have: eager formulas of bf16 are rounded after every operation


def tensors_of(result):
    """The tensors of nested tuples, as PyTorch's."""
    if isinstance(result, (tuple, list)):
        return [t for r in result for t in tensors_of(r)]
    return [torch.from_dlpack(result) if isinstance(result, ebb.Tensor) else result.detach()]


def error_of(results, exact):
    """The largest distance from the exact tensors, relative to their norms."""
    worst = 0.0
    for got, want in zip(results, exact, strict=True):
        distance = torch.linalg.vector_norm(got.double() - want)
        worst = max(worst, (distance / torch.linalg.vector_norm(want).clamp(min=1e-300)).item())
    return worst


def exact_results(loss, arguments, wrt):
    given = [a.double() if a.is_floating_point() else a for a in arguments]
    given = [a.clone().requires_grad_() if k in wrt else a for k, a in enumerate(given)]
    value = loss(*given)
    return [value.detach(), *torch.autograd.grad(value, [given[k] for k in wrt])]


def measure(machine, options, makers, exact=None, tolerance=None, views=None, with_memory=False, turn=timing.TURN):
    """Results by contender. `exact` are the f64 tensors a call should give; views[key] makes a contender's result so."""
    results, ready = {}, {}
    torch._dynamo.reset()  # it counts how often it compiled, over all losses
    for key, make in makers.items():
        result = results[key] = {"title": TITLES.get(key, key)}
        try:
            machine.synchronize()
            start = time.perf_counter()
            call = make()
            given = call()
            machine.synchronize()
            result["first_s"] = time.perf_counter() - start
            if options.part:  # only compiles
                continue
            if exact is not None:
                result["error"] = error_of(tensors_of((views or {}).get(key, lambda r: r)(given)), exact)
                allowed = tolerance if key.startswith("ebb") else PEERS_MAY * tolerance
                if not result["error"] <= allowed:
                    result["reason"] = f"off by {result['error']:.2g} of the f64 result, where {allowed:.2g} is allowed"
            del given
            if with_memory:
                result["peak_bytes"] = machine.peak_bytes(call)
            if "reason" not in result:
                timing.calls_in_a_turn(machine, call)  # what fails, fails here
                ready[key] = call
        except Exception as error:
            result["reason"] = first_line(error)
    if ready:
        for key, times in timing.medians(machine, ready, options.rounds, turn).items():
            results[key].update(times)
    return results


def compare(run, suite, case, ebb_loss, torch_loss, arguments, tolerance, wrt=(0,), formulas=(), more=None,
            views=None, bound_by_memory=True, **facts):
    """A loss in Ebb and in PyTorch, and further contenders; `formulas`: other ways to write it for torch.compile."""
    run.record.check_time()
    if not run.options.wanted(case):
        return
    exact = None if run.options.part else exact_results(torch_loss, arguments, wrt)
    makers = {"ebb": ebb_step(ebb_loss, arguments, wrt), "eager": eager_step(torch_loss, arguments, wrt),
              "compile": compiled_step([torch_loss, *formulas], arguments, wrt)}
    if suite in run.options.max_autotune:
        makers["max_autotune"] = compiled_step([torch_loss, *formulas], arguments, wrt, AUTOTUNED)
    makers.update(more or {})
    results = measure(run.machine, run.options, run.chosen(makers), exact, tolerance, views)
    moved = sum(a.nbytes for a in arguments) + sum(arguments[k].nbytes for k in wrt)
    run.record.add({"suite": suite, "case": case, "bytes": moved if bound_by_memory else None, "results": results,
                    **facts})
