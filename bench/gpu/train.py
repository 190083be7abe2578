# SPDX-License-Identifier: MIT
"""Suite `train`: GPT-2 with 124 million parameters, tokens per second beside peak memory, and a step of a small network."""

import os
import re
import subprocess
import time
from pathlib import Path

import torch
import torch.nn.functional as F

import ebb
from gpu import timing
from gpu.comparison import measure
from gpu.contenders import AUTOTUNED, GRAPHS, first_line
from gpu.gpt import Gpt, attentions, matrix_products, training_step
from gpu.names import TITLES

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "release" / "examples" / "gpt2"


def gpt2_program(run, batch, layers, width, recompute):
    """What examples/gpt2.cc says of itself."""
    program = run.options.gpt2 or os.environ.get("EBB_GPT2") or PROGRAM
    result = {"title": "Ebb"}
    try:
        # The first process compiles the kernels, as the other contenders compile before they are timed.
        for steps in ["2"] if run.options.part else ["2", "60"]:
            command = [str(program), "cuda", steps, str(batch), str(layers), str(width), str(recompute)]
            start = time.perf_counter()
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            took = time.perf_counter() - start
        found = re.search(r"([\d.]+) ms a step, (\d+) tokens a second, ([\d.]+) GB", done.stdout)
        if found:
            result.update(median_s=float(found[1]) / 1e3, peak_bytes=float(found[3]) * 1e9, first_s=took)
        if done.returncode or not found:
            lines = (done.stdout + done.stderr).strip().splitlines()
            result["reason"] = f"gpt2 ended with {done.returncode}: {lines[-1][:160] if lines else ''}"
    except (OSError, subprocess.TimeoutExpired) as error:
        result["reason"] = first_line(error)
    return result


def gpt2(run):
    machine = run.machine
    vocabulary, context, width, heads, layers, batch = (
        (96, 16, 32, 2, 2, 8) if machine.small else (50304, 1024, 768, 12, 12, 4 if machine.quick else 16))
    case = f"GPT-2, {layers} layers of {width}, batch {batch} x {context}"
    run.record.check_time()
    if not run.options.wanted(case):
        return
    x, labels = (torch.randint(0, 90, (batch, context), device=machine.device) for _ in range(2))

    def model(head=None):
        torch.manual_seed(1)
        return Gpt(vocabulary, context, width, heads, layers, head).to(machine.device)

    def by_ebb():
        from ebb.torch import linear_cross_entropy

        return model(lambda h, w, t: linear_cross_entropy(h, w, t, round_logits=True))

    kind = machine.device.type
    makers = {
        "eager": lambda: training_step(model(), x, labels, kind),
        "compile": lambda: training_step(model(), x, labels, kind, "default"),
        "compile ebb.torch": lambda: training_step(by_ebb(), x, labels, kind, "default"),
    }
    def products(attends):
        multiply = matrix_products(vocabulary, width, layers, batch * context, machine.device)
        attend = attentions(width, heads, layers, batch, context, machine.device) if attends else lambda: None

        def step():
            attend()
            return multiply()

        return step

    alone = {"products of a step": lambda: products(False), "products and attention": lambda: products(True)}
    makers.update(alone)
    if "train" in run.options.max_autotune:
        makers["max_autotune"] = lambda: training_step(model(), x, labels, kind, AUTOTUNED)
    results, wanted = {}, run.chosen({"ebb": None, **makers})
    if "ebb" in wanted and machine.on_gpu:  # on a CPU it trains a tiny network and names no times
        results["ebb"] = gpt2_program(run, batch, layers, width, 0)
        results["ebb recompute_activation"] = gpt2_program(run, batch, layers, width, layers // 2)
    for key, make in makers.items():
        if key in wanted:  # one at a time: parameters and the optimiser's state are part of the memory
            results[key] = one_training(machine, run.options, key, make)
    tokens = batch * context
    for key, result in results.items():
        if key in alone:
            result.pop("peak_bytes", None)
        elif "median_s" in result:
            result["tokens_per_second"] = tokens / result["median_s"]
            print(f"        {result['title']}: {result['tokens_per_second']:,.0f} tokens per second")
    run.record.add({"suite": "train", "case": case, "bytes": None, "results": results, "tokens": tokens,
                    "show_times": True})


def one_training(machine, options, key, make):
    result = {"title": TITLES[key]}
    torch._dynamo.reset()
    machine.empty_caches()
    before = machine.allocated()
    try:
        start = time.perf_counter()
        step = make()
        loss = step()
        machine.synchronize()
        result["first_s"] = time.perf_counter() - start
        if options.part:
            return result
        assert torch.isfinite(loss).item(), "the loss is not a number"
        step()
        if machine.on_gpu:
            held = machine.allocated() - before
            result["peak_bytes"] = held + machine.peak_bytes(step)
        result.update(timing.medians(machine, {key: step}, options.rounds, turn=0.05 if machine.small else 0.5)[key])
    except Exception as error:
        result["reason"] = first_line(error)
    return result


def mlp(run):
    machine = run.machine
    sizes, batch = ((12, 16, 10), 8) if machine.small else ((784, 1024, 1024, 10), 256)
    case = f"MLP {'-'.join(map(str, sizes))} f32, batch {batch}, Adam"
    run.record.check_time()
    if not run.options.wanted(case):
        return
    x = torch.randn(batch, sizes[0], device=machine.device)
    labels = torch.randint(0, sizes[-1], (batch,), device=machine.device)

    def in_ebb():
        with ebb.device(machine.device.type):
            layers = [ebb.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]
            given, target = ebb.from_dlpack(x), ebb.from_dlpack(labels)
        optimizer = ebb.optim.Adam(lr=1e-3)

        def step():
            h = given
            for k, layer in enumerate(layers):
                h = layer(h) if k + 1 == len(layers) else ebb.relu(layer(h))
            loss = ebb.cross_entropy(h, target)
            optimizer.step(layers, ebb.backward(loss))
            return loss

        return step

    def in_torch(mode=None, compiled=False):
        layers = []
        for k, (a, b) in enumerate(zip(sizes, sizes[1:])):
            layers += [torch.nn.Linear(a, b)] + ([torch.nn.ReLU()] if k + 2 < len(sizes) else [])
        model = torch.nn.Sequential(*layers).to(machine.device)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
        loss_of = lambda x, y: F.cross_entropy(model(x), y)
        forward = torch.compile(loss_of, mode=mode) if compiled else loss_of

        def step():
            loss = forward(x, labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return loss.detach()

        return step

    makers = {"ebb": in_ebb, "eager": in_torch, "compile": lambda: in_torch(compiled=True)}
    if machine.on_gpu:
        makers["graphs"] = lambda: in_torch(GRAPHS, compiled=True)
    results = measure(machine, run.options, run.chosen(makers))
    run.record.add({"suite": "train", "case": case, "bytes": None, "results": results, "show_times": True})


def train(run):
    gpt2(run)
    mlp(run)
