#!/usr/bin/env python3
"""Ebb beside PyTorch on one GPU: the same inputs, value and gradient, in one run.

    bench/cuda.py [--suite losses,rows,norms,linear_ce,attention,ctc,small] [--quick] [--json FILE]

Contenders: Ebb compiled (`ebb.compile`), PyTorch eager, and torch.compile of value and gradient as one graph. Liger's
fused cross-entropy takes part where it is installed. Contenders take turns; a time is the median of their rounds,
between two synchronisations, over enough calls to fill 20 ms. `of copy` is the share of the bandwidth of a copy on this
GPU that the bytes which must move (inputs once, results once) stand for. Results are checked against f64 first.
"""

import argparse
import json
import math
import statistics
import time
import warnings

import torch
import torch.nn.functional as F

import ebb

AT_LEAST = 0.02  # seconds of a turn
device = torch.device("cuda")


def synchronize():
    torch.cuda.synchronize()
    ebb.cuda.synchronize()


def seconds_of(call, calls):
    synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    synchronize()
    return (time.perf_counter() - start) / calls


def medians(contenders, rounds):
    """Seconds of each contender, in turns; None where one cannot."""
    calls, result = {}, {}
    for name, call in contenders.items():
        try:
            for _ in range(3):
                call()
            calls[name] = max(1, min(2000, int(AT_LEAST / max(seconds_of(call, 2), 1e-7))))
            result[name] = []
        except Exception as error:  # a peer that cannot is named and left out
            print(f"    {name}: {str(error).splitlines()[0][:100]}")
    for _ in range(rounds):
        for name in result:
            result[name].append(seconds_of(contenders[name], calls[name]))
    return {name: statistics.median(s) for name, s in result.items()}


def in_ebb(tensor):
    return ebb.from_dlpack(tensor.detach())


def both(loss, arguments, wrt=1):
    """Value and gradient by the first `wrt` arguments in PyTorch, eager and compiled as one graph."""
    leaves = [a.detach().clone().requires_grad_() for a in arguments[:wrt]]
    rest = arguments[wrt:]

    def eager():
        value = loss(*leaves, *rest)
        return value, torch.autograd.grad(value, leaves)

    torch._dynamo.reset()  # it counts how often it compiled, over all losses
    graph = torch.func.grad_and_value(loss, argnums=tuple(range(wrt)))
    compiled = torch.compile(graph, fullgraph=True)

    def one_graph():
        gradients, value = compiled(*arguments)
        return value, gradients

    return eager, one_graph


def far_from(got, exact):
    got, exact = got.detach().double(), exact.detach().double()
    return ((got - exact).norm() / exact.norm().clamp(min=1e-300)).item()


def check(name, ebb_call, loss, arguments, wrt, tolerance):
    exact = [a.double() if a.is_floating_point() else a for a in arguments]
    exact = [a.clone().requires_grad_() for a in exact[:wrt]] + exact[wrt:]
    value = loss(*exact)
    gradients = torch.autograd.grad(value, exact[:wrt])
    mine, mine_gradients = ebb_call()
    ebb.cuda.synchronize()
    error = max([far_from(torch.from_dlpack(mine), value)] +
                [far_from(torch.from_dlpack(m), g) for m, g in zip(mine_gradients, gradients)])
    assert error <= tolerance, f"{name}: Ebb is off by {error:.2g} of the f64 result"


class Table:
    def __init__(self, rounds):
        self.rounds, self.rows = rounds, []
        source = torch.randn(1 << 28, device=device)
        target = torch.empty_like(source)
        self.copy = 2 * 4 * (1 << 28) / medians({"copy": lambda: target.copy_(source)}, rounds)["copy"]
        print(f"{torch.cuda.get_device_name()}, copy {self.copy / 1e12:.2f} TB/s, PyTorch {torch.__version__}\n")
        print(f"{'':<44} {'Ebb':>10} {'of copy':>8}   {'eager':>8} {'compiled':>9}   (time of the peer over Ebb's)")

    def row(self, name, bytes_moved, contenders):
        times = medians(contenders, self.rounds)
        mine = times.get("ebb")
        if mine is None:
            print(f"{name:<44} Ebb cannot")
            return
        share = bytes_moved / mine / self.copy if bytes_moved else float("nan")
        ratio = lambda peer: f"{times[peer] / mine:.2f}" if peer in times else "-"
        shown = f"{mine * 1e6:8.1f}us" if mine < 0.01 else f"{mine * 1e3:8.2f}ms"
        of_copy = f"{100 * share:7.1f}%" if not math.isnan(share) else f"{'':>8}"
        print(f"{name:<44} {shown} {of_copy}   {ratio('eager'):>8} {ratio('compiled'):>9}"
              + "".join(f"   {k} {times[k] / mine:.2f}" for k in times if k not in ("ebb", "eager", "compiled")))
        self.rows.append({"name": name, "share_of_copy": share, "seconds": times})


def compare(table, name, ebb_loss, torch_loss, arguments, bytes_moved, tolerance, wrt=1, more=None):
    step = ebb.compile(ebb.value_and_grad(ebb_loss, argnums=tuple(range(wrt))))
    given = [in_ebb(a) for a in arguments]
    ebb_call = lambda: step(*given)
    check(name, ebb_call, torch_loss, arguments, wrt, tolerance)
    eager, compiled = both(torch_loss, arguments, wrt)
    table.row(name, bytes_moved, {"ebb": ebb_call, "eager": eager, "compiled": compiled, **(more or {})})


def losses(table, quick):
    n = 1 << (24 if quick else 26)
    for dtype, size in ((torch.float32, 4), (torch.bfloat16, 2)):
        x = torch.randn(n, device=device, dtype=dtype)
        y = torch.rand(n, device=device, dtype=dtype)
        sign = torch.where(y > 0.5, torch.ones_like(y), -torch.ones_like(y))
        tolerance = 2e-5 if size == 4 else 1e-2
        cases = [
            ("mse_loss", ebb.mse_loss, F.mse_loss, y),
            ("huber_loss", ebb.huber_loss, F.huber_loss, y),
            ("l1_loss", ebb.l1_loss, F.l1_loss, y),
            ("binary_cross_entropy_with_logits", ebb.binary_cross_entropy_with_logits,
             F.binary_cross_entropy_with_logits, y),
            ("soft_margin_loss", ebb.soft_margin_loss, F.soft_margin_loss, sign),
            ("log cosh (x - y), written out", lambda a, b: ebb.log(ebb.cosh(a - b)).mean(),
             lambda a, b: torch.log(torch.cosh(a - b)).mean(), y),
            ("focal loss, written out", user_focal(ebb.sigmoid, ebb.log), user_focal(torch.sigmoid, torch.log), y),
        ]
        for name, mine, theirs, other in cases:
            compare(table, f"{name} {str(dtype)[6:]} 2^{n.bit_length() - 1}", mine, theirs, [x, other], 3 * size * n,
                    tolerance)


def user_focal(sigmoid, log):
    def loss(x, y):
        p = sigmoid(x)
        right = p * y + (1 - p) * (1 - y)
        return -((1 - right) * (1 - right) * log(right + 1e-6)).mean()
    return loss


def rows(table, quick):
    for vocabulary in (4096, 32768, 50304, 128256):
        batch = (1 << (26 if quick else 29)) // vocabulary
        x = torch.randn(batch, vocabulary, device=device, dtype=torch.bfloat16)
        target = torch.randint(0, vocabulary, (batch,), device=device)
        more = {}
        try:
            from liger_kernel.transformers.functional import liger_cross_entropy
            leaf = x.detach().clone().requires_grad_()
            more["liger"] = lambda: torch.autograd.grad(liger_cross_entropy(leaf, target), leaf)
        except ImportError:
            pass
        compare(table, f"cross_entropy bf16 [{batch}, {vocabulary}]", ebb.cross_entropy,
                lambda a, t: F.cross_entropy(a.float() if a.dtype != torch.float64 else a, t), [x, target],
                4 * batch * vocabulary, 2e-2, more=more)


def norms(table, quick):
    batch, width = (8192 if quick else 65536), 4096
    x = torch.randn(batch, width, device=device, dtype=torch.bfloat16)
    w = torch.rand(width, device=device, dtype=torch.bfloat16)
    b = torch.rand(width, device=device, dtype=torch.bfloat16)
    given = [in_ebb(t) for t in (x, w, b)]
    moved = 4 * batch * width
    for name, mine, theirs in (
        ("softmax", lambda a, w, b: ebb.softmax(a, -1), lambda a, w, b: torch.softmax(a, -1)),
        ("layer_norm", lambda a, w, b: ebb.layer_norm(a, [width], w, b),
         lambda a, w, b: F.layer_norm(a, [width], w, b)),
        ("rms_norm", lambda a, w, b: ebb.rms_norm(a, [width], w), lambda a, w, b: F.rms_norm(a, [width], w)),
    ):
        step = ebb.compile(mine)
        error = far_from(torch.from_dlpack(step(*given)), theirs(x.double(), w.double(), b.double()))
        assert error < 1e-2, f"{name}: Ebb is off by {error:.2g}"
        compiled = torch.compile(theirs, fullgraph=True)
        table.row(f"{name} bf16 [{batch}, {width}]", moved,
                  {"ebb": lambda: step(*given), "eager": lambda: theirs(x, w, b), "compiled": lambda: compiled(x, w, b)})


def linear_ce(table, quick):
    shapes = [(8192, 2048, 32000), (16384, 768, 50304)] + ([] if quick else [(16384, 4096, 128256)])
    for n, width, vocabulary in shapes:
        x = torch.randn(n, width, device=device, dtype=torch.bfloat16)
        head = torch.randn(vocabulary, width, device=device, dtype=torch.bfloat16) * 0.02
        target = torch.randint(0, vocabulary, (n,), device=device)
        given = [in_ebb(t) for t in (x, head, target)]
        logits = torch.empty(n, vocabulary, device=device, dtype=torch.bfloat16)

        def products():
            torch.matmul(x, head.t(), out=logits)
            torch.matmul(logits, head)
            torch.matmul(logits.t(), x)

        leaves = [x.detach().requires_grad_(), head.detach().requires_grad_()]

        def eager():
            value = F.cross_entropy(F.linear(*leaves), target)
            return torch.autograd.grad(value, leaves)

        for words, options in (("", {}), (", bf16 logits", {"round_logits": True}),
                               (", bf16 logits and sums", {"round_logits": True, "round_sums": True})):
            step = ebb.value_and_grad(lambda a, h, t: ebb.linear_cross_entropy(a, h, t, **options), argnums=(0, 1))

            def mine():
                value, gradients = step(*given)
                ebb.eval(value, *gradients)
                return gradients

            ebb.cuda.empty_cache()
            ebb.cuda.reset_peak_memory_stats()
            before = ebb.cuda.memory_allocated()
            gradients = mine()
            ebb.cuda.synchronize()
            peak = (ebb.cuda.max_memory_allocated() - before) / 1e9
            if n * vocabulary < 1 << 30:
                for one, theirs in zip(gradients, eager()):
                    error = far_from(torch.from_dlpack(one), theirs)
                    assert error < 2e-2, f"linear_ce{words}: Ebb's gradient is off by {error:.2g} of PyTorch's"
            del gradients
            table.row(f"linear_ce {n} x {width} x {vocabulary}{words}", 0,
                      {"ebb": mine, "eager": eager, "three products": products})
            print(f"{'':<44} peak beyond the inputs, gradients included: {peak:.2f} GB")
        del logits


def attention(table, quick):
    shape = (4 if quick else 16, 12, 1024, 64)
    q, k, v, g = (torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(4))
    compare(table, f"attention bf16 {list(shape)}, causal, fwd+bwd",
            lambda q, k, v, g: (ebb.scaled_dot_product_attention(q, k, v, is_causal=True) * g).sum(),
            lambda q, k, v, g: (F.scaled_dot_product_attention(q, k, v, is_causal=True) * g).sum(), [q, k, v, g], 0,
            2e-2, wrt=3)


def ctc(table, _):
    frames, batch, classes, length = 512, 64, 128, 64
    x = torch.randn(frames, batch, classes, device=device)  # PyTorch's gradient is that of a softmax's logits
    labels = torch.randint(1, classes, (batch, length), device=device)
    frame_counts = torch.full((batch,), frames, device=device)
    lengths = torch.full((batch,), length, device=device)
    compare(table, f"ctc_loss f32 T {frames}, N {batch}, C {classes}, S {length}", 
            lambda x, *rest: ebb.ctc_loss(ebb.log_softmax(x, -1), *rest),
            lambda x, *rest: F.ctc_loss(x.log_softmax(-1), *rest), [x, labels, frame_counts, lengths], 0, 1e-4)


def small(table, _):
    x, y = torch.randn(1000, device=device), torch.randn(1000, device=device)
    compare(table, "mse_loss f32, 1000 elements", ebb.mse_loss, F.mse_loss, [x, y], 0, 1e-5)
    w = [torch.randn(s, device=device) * 0.05 for s in ((784, 256), (256, 10))]
    batch, labels = torch.randn(64, 784, device=device), torch.randint(0, 10, (64,), device=device)
    compare(table, "MLP 784-256-10, batch 64, value and gradient",
            lambda a, b, x, t: ebb.cross_entropy(ebb.relu(x @ a) @ b, t),
            lambda a, b, x, t: F.cross_entropy(torch.relu(x @ a) @ b, t), [*w, batch, labels], 0, 1e-4, wrt=2)


SUITES = {"losses": losses, "rows": rows, "norms": norms, "linear_ce": linear_ce, "attention": attention,
          "ctc": ctc, "small": small}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--suite", default=",".join(SUITES))
    parser.add_argument("--quick", action="store_true", help="smaller arrays")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="also write the figures there")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")  # of the compiler of PyTorch
    table = Table(args.rounds)
    for suite in args.suite.split(","):
        SUITES[suite](table, args.quick)
        torch.cuda.empty_cache()
        ebb.cuda.empty_cache()
    if args.json:
        with open(args.json, "w") as out:
            json.dump({"device": torch.cuda.get_device_name(), "copy": table.copy, "rows": table.rows}, out, indent=1)


if __name__ == "__main__":
    main()
