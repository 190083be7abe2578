# SPDX-License-Identifier: MIT
"""Suite `linear_ce`: an LM head and its cross-entropy, value and both gradients, time beside memory."""

import torch
import torch.nn.functional as F

import ebb
from ebb.losses import registry
from gpu.comparison import measure
from gpu.contenders import AUTOTUNED, compiled_step, eager_step, package
from gpu.machine import in_ebb

# Ebb's ways, from the most digits to the least memory.
WAYS = {
    "ebb": {},
    "ebb round_logits": {"round_logits": True},
    "ebb round_logits, round_sums": {"round_logits": True, "round_sums": True},
    "ebb round_logits, round_sums, chunk 2048": {"round_logits": True, "round_sums": True, "chunk": 2048},
}


def exact_results(x, head, target, rows=2048):
    """In f64, some rows of logits at a time."""
    head, of_head, of_x = head.double(), None, []
    total = 0.0
    for first in range(0, len(x), rows):
        part, labels = x[first : first + rows].double(), target[first : first + rows]
        logits = part @ head.t()
        total = total + F.cross_entropy(logits, labels, reduction="sum")
        shares = torch.softmax(logits, -1)
        shares[torch.arange(len(part), device=x.device), labels] -= 1
        shares /= len(x)
        of_x.append(shares @ head)
        of_head = shares.t() @ part if of_head is None else of_head.addmm_(shares.t(), part)
    return [total / len(x), torch.cat(of_x), of_head]


def ebb_way(arguments, options):
    def make():
        step = ebb.value_and_grad(lambda x, h, t: ebb.linear_cross_entropy(x, h, t, **options), argnums=(0, 1))
        given = [in_ebb(t) for t in arguments]

        def call():
            value, gradients = step(*given)
            ebb.eval(value, *gradients)
            return value, gradients

        return call

    return make


def with_autograd(find, x, head, target):
    """A peer's function of PyTorch's tensors."""

    def make():
        return eager_step(find(), [x, head, target], (0, 1))()

    return make


def contenders(run, x, head, target):
    known = {name for entry in registry if entry["name"] == "linear_cross_entropy" for name, *_ in entry["options"]}
    makers = {way: ebb_way([x, head, target], options) for way, options in WAYS.items() if set(options) <= known}
    plain = lambda a, h, t: F.cross_entropy(F.linear(a, h), t)

    def in_pytorch():
        from ebb.torch import linear_cross_entropy

        return lambda a, h, t: linear_cross_entropy(a, h, t, round_logits=True, round_sums=True)

    def products():
        logits = torch.empty(len(x), len(head), device=x.device, dtype=x.dtype)

        def call():
            torch.matmul(x, head.t(), out=logits)
            return logits, torch.matmul(logits, head), torch.matmul(logits.t(), x)

        return call

    makers.update({
        "ebb torch": with_autograd(in_pytorch, x, head, target),
        "products": products,
        "eager": eager_step(plain, [x, head, target], (0, 1)),
        "compile": compiled_step([plain], [x, head, target], (0, 1)),
        "compile autograd": with_autograd(lambda: torch.compile(plain, fullgraph=True), x, head, target),
        "liger": with_autograd(lambda: package("liger").liger_fused_linear_cross_entropy, x, head, target),
        "cce": with_autograd(lambda: package("cce").linear_cross_entropy, x, head, target),
    })
    for key, chunk in (("quack", 4096), ("quack 2048", 2048)):
        def find(chunk=chunk):
            loss = package("quack", "linear_cross_entropy").chunked_linear_cross_entropy
            return lambda a, h, t: loss(a, h, t, chunk_size=chunk)

        makers[key] = with_autograd(find, x, head, target)
    if "linear_ce" in run.options.max_autotune:
        makers["max_autotune"] = compiled_step([plain], [x, head, target], (0, 1), AUTOTUNED)
    return run.chosen(makers)


def linear_ce(run):
    machine = run.machine
    shapes = [(32, 16, 128)] if machine.small else [(16384, 768, 50304), (8192, 2048, 32000)]
    if not machine.quick:
        shapes.insert(0, (16384, 4096, 128256))
    for n, width, vocabulary in shapes:
        case = f"{n} x {width} x {vocabulary}"
        run.record.check_time()
        if not run.options.wanted(case):
            continue
        x = torch.randn(n, width, device=machine.device, dtype=torch.bfloat16)
        head = torch.randn(vocabulary, width, device=machine.device, dtype=torch.bfloat16) * 0.02
        target = torch.randint(0, vocabulary, (n,), device=machine.device)
        exact = None if run.options.part else exact_results(x, head, target)
        # The products alone are no loss: they are timed, not checked.
        views = {"products": lambda r: exact}
        results = measure(machine, run.options, contenders(run, x, head, target), exact, 2e-2, views, with_memory=True)
        del exact
        machine.empty_caches()
        run.record.add({"suite": "linear_ce", "case": case, "bytes": None, "results": results, "show_times": True,
                        "flops": 6 * n * width * vocabulary})
