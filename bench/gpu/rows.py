# SPDX-License-Identifier: MIT
"""Suites `rows` and `norms`: cross-entropy over vocabularies, value and gradient; softmax and norms of rows."""

import torch
import torch.nn.functional as F

import ebb
from gpu.comparison import compare, measure
from gpu.contenders import AUTOTUNED, package
from gpu.machine import in_ebb


def liger_cross_entropy(x, target):
    def make():
        loss = package("liger").liger_cross_entropy
        # Its forward pass puts the gradient in the logits' place, so it gets logits of its own. After the first call
        # these are gradients: the time is the same.
        leaf = x.detach().clone().requires_grad_()

        def call():
            value = loss(leaf, target)
            return value, torch.autograd.grad(value, [leaf])

        return call

    return make


def quack_cross_entropy(x, target):
    def make():
        loss = package("quack").cross_entropy
        leaf = x.detach().requires_grad_()

        def call():
            value = loss(leaf, target, reduction="mean")
            return value, torch.autograd.grad(value, [leaf])

        return call

    return make


def quack_in_one_pass(x, target):
    """The terms and their gradients, which are not divided by the number of rows."""

    def make():
        forward = package("quack", "cross_entropy").cross_entropy_fwd
        return lambda: forward(x, target, return_dx=True)

    return make


def rows(run):
    machine = run.machine
    for vocabulary in (64, 1000) if machine.small else (4096, 32768, 50304, 128256):
        batch = (1 << (12 if machine.small else 26 if machine.quick else 29)) // vocabulary
        x = torch.randn(batch, vocabulary, device=machine.device, dtype=torch.bfloat16)
        target = torch.randint(0, vocabulary, (batch,), device=machine.device)
        compare(run, "rows", f"cross_entropy bf16 [{batch}, {vocabulary}]", ebb.cross_entropy, F.cross_entropy,
                [x, target], 2e-2,
                more={"liger": liger_cross_entropy(x, target), "quack": quack_cross_entropy(x, target),
                      "quack one pass": quack_in_one_pass(x, target)},
                views={"quack one pass": lambda r: (r[0].mean(), r[1] / batch)})


def norms(run):
    machine = run.machine
    batch, width = (16, 64) if machine.small else (8192, 4096) if machine.quick else (65536, 4096)
    x = torch.randn(batch, width, device=machine.device, dtype=torch.bfloat16)
    w, b = (torch.rand(width, device=machine.device, dtype=torch.bfloat16) for _ in range(2))
    wide = [w.float(), b.float()]  # QuACK's layer norm takes f32
    eps = 1e-5
    cases = {
        "softmax": (
            lambda a, w, b: ebb.softmax(a, -1), lambda a, w, b: torch.softmax(a, -1),
            lambda: lambda: package("liger").liger_softmax(x), lambda: lambda: package("quack").softmax(x)),
        "layer_norm": (
            lambda a, w, b: ebb.layer_norm(a, [width], w, b, eps=eps), lambda a, w, b: F.layer_norm(a, [width], w, b, eps),
            lambda: lambda: package("liger").liger_layer_norm(x, w, b, eps),
            lambda: lambda: package("quack", "rmsnorm").layernorm_fwd(x, *wide, eps)),
        "rms_norm": (
            lambda a, w, b: ebb.rms_norm(a, [width], w, eps=eps), lambda a, w, b: F.rms_norm(a, [width], w, eps),
            lambda: lambda: package("liger").liger_rms_norm(x, w, eps),
            lambda: lambda: package("quack").rmsnorm(x, w, eps=eps)),
    }
    for name, (mine, theirs, liger, quack) in cases.items():
        case = f"{name} bf16 [{batch}, {width}], forward"
        run.record.check_time()
        if not run.options.wanted(case):
            continue

        def ebb_call(function=mine):
            step, given = ebb.compile(function), [in_ebb(t) for t in (x, w, b)]
            return lambda: step(*given)

        def compiled(mode=None, function=theirs):
            step = torch.compile(function, fullgraph=True, mode=mode)
            return lambda: step(x, w, b)

        makers = {"ebb": ebb_call, "eager": lambda f=theirs: lambda: f(x, w, b), "compile": compiled, "liger": liger,
                  "quack": quack}
        if "norms" in run.options.max_autotune:
            makers["max_autotune"] = lambda: compiled(AUTOTUNED)
        with torch.no_grad():
            exact = [theirs(x.double(), w.double(), b.double())]
            results = measure(machine, run.options, run.chosen(makers), exact, 2e-2)
        run.record.add({"suite": "norms", "case": case, "bytes": 2 * x.nbytes, "results": results})
