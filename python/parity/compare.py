# SPDX-License-Identifier: MIT
"""Holds Ebb against PyTorch in one process: value, gradient and second gradient of every operation and loss.

Run by run.py, with an interpreter that has PyTorch and the package ebb. Prints a row each with the worst difference, relative
to the largest number of what is compared (at least 1), and ends with 1 if one is larger than rounding explains.
"""

import sys
import time
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F

import ebb
import ebb.torch
import loss_cases
import operations
import signatures
from operations import Real, Whole

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python" / "tools"))
from header_docs import documented  # noqa: E402

# Differences explained by rounding: value, gradient, second gradient.
ALLOWED = {torch.float64: (1e-12, 1e-11, 1e-10), torch.float32: (2e-5, 1e-4, 2e-3), torch.bfloat16: (3e-2, 8e-2, None)}
TRIALS = 3
warnings.filterwarnings("ignore")  # PyTorch's remarks about orders of reduction


class Row:
    def __init__(self, name):
        self.name, self.cases, self.worst, self.failed = name, 0, {}, []

    def add(self, dtype, part, difference, what):
        key = (str(dtype).removeprefix("torch."), part)
        self.worst[key] = max(self.worst.get(key, 0.0), difference)
        allowed = max(ALLOWED[dtype][part], operations.ROUGH.get(self.name, 0))
        if not difference <= allowed:
            self.failed.append(
                f"{self.name}: {('value', 'gradient', 'second gradient')[part]} in {key[0]} differs by {difference:.1e} ({what})"
            )


def difference(ours, theirs):
    if tuple(ours.shape) != tuple(theirs.shape):
        return float("inf")
    if theirs.numel() == 0:
        return 0.0
    a, b = ours.double(), theirs.double()
    if not torch.equal(torch.isnan(a), torch.isnan(b)):
        return float("inf")
    a, b = torch.nan_to_num(a), torch.nan_to_num(b)
    return ((a - b).abs().max() / max(1.0, b.abs().max().item())).item()


def make(spec, sizes, dtype):
    shape = [sizes[s] if s.isalpha() else int(s) for s in spec.shape]
    if isinstance(spec, Whole):
        return torch.randint(0, spec.below, shape)
    return (spec.low + (spec.high - spec.low) * torch.rand(shape, dtype=torch.float64)).to(dtype)


def torch_derivatives(f, inputs, second):
    """Value; gradients of sum(value · c); gradients of sum(gradients · d), for the same c and d as ours."""
    xs = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    wrt = [x for x in xs if x.requires_grad]
    y = f(*xs)
    if not (y.is_floating_point() and y.requires_grad):
        return y, [], []
    c = weights(y, 1)
    grads = torch.autograd.grad((y * c).sum(), wrt, create_graph=second, allow_unused=True, materialize_grads=True)
    if not second:
        return y.detach(), grads, []
    total = sum((g * weights(g, 2)).sum() for g in grads)
    seconds = (
        torch.autograd.grad(total, wrt, allow_unused=True, materialize_grads=True)
        if total.requires_grad
        else [torch.zeros_like(x) for x in wrt]
    )
    return y.detach(), [g.detach() for g in grads], seconds


def weights(x, salt):
    """Fixed numbers in the shape of x: a cotangent of ones would hide errors."""
    k = torch.arange(x.numel(), dtype=torch.float64).reshape(x.shape)
    return (0.5 + torch.sin(k * (salt + 0.7) + salt)).to(x.dtype)


def ebb_derivatives(f, inputs, second):
    xs = [ebb.torch.from_torch(x) for x in inputs]
    floating = [i for i, x in enumerate(inputs) if x.is_floating_point()]
    y = f(*xs)
    if not y.dtype.is_floating or not floating:
        return ebb.torch.to_torch(y), [], []
    c = ebb.torch.from_torch(weights(ebb.torch.to_torch(y), 1))

    def whole(*chosen):
        new = list(xs)
        for i, x in zip(floating, chosen):
            new[i] = x
        return (f(*new) * c).sum()

    chosen, numbers = [xs[i] for i in floating], tuple(range(len(floating)))
    first = ebb.grad(whole, argnums=numbers)
    grads = [ebb.torch.to_torch(g) for g in first(*chosen)]
    if not second:
        return ebb.torch.to_torch(y), grads, []
    d = [ebb.torch.from_torch(weights(g, 2)) for g in grads]
    seconds = ebb.grad(lambda *t: sum((g * w).sum() for g, w in zip(first(*t), d)), argnums=numbers)(*chosen)
    return ebb.torch.to_torch(y), grads, [ebb.torch.to_torch(s) for s in seconds]


def compare_operations(rows):
    library = {
        "cholesky",
        "triangular_solve",
        "solve",
        "inv",
        "det",
        "logdet",
        "lgamma",
        "digamma",
        "polygamma",
        "median",
        "quantile",
        "group_norm",
        "instance_norm",
        "batch_norm",
        "cast",
        "cumprod",
        *operations.SPECIAL,
        "cdist",
        "pdist",
        "grid_sample",
        "avg_pool3d",
        "slogdet",
        "eigh",
        "qr",
        "svd",
        "pinv",
        "lstsq",
    }
    for name, ours, theirs, specs in operations.CASES:
        row = rows.setdefault(name, Row(name))
        for dtype, allowed in ALLOWED.items():
            if dtype == torch.bfloat16 and name in library or not specs and dtype != torch.float32:
                continue  # PyTorch has them in f32 and f64 alone, or rounds on the way
            for trial in range(TRIALS):
                sizes = {letter: int(torch.randint(2, 7, ())) for letter in "mnk"}
                inputs = [make(s, sizes, dtype) for s in specs]
                second = allowed[2] is not None and name not in operations.ONCE
                row.cases += 1
                try:
                    mine, reference = ebb_derivatives(ours, inputs, second), torch_derivatives(theirs, inputs, second)
                except Exception as e:  # noqa: BLE001: a case that cannot run is a difference
                    row.failed.append(f"{name} in {dtype}: {type(e).__name__}: {e}")
                    continue
                what = ", ".join(str(list(x.shape)) for x in inputs)
                row.add(dtype, 0, difference(mine[0], reference[0]), what)
                for part in (1, 2):
                    for a, b in zip(mine[part], reference[part]):
                        row.add(dtype, part, difference(a, b), what)
                if not specs:
                    break


def loss_derivatives(f, tensors, differentiated, second):
    xs = [x.clone().requires_grad_(i in differentiated) for i, x in enumerate(tensors)]
    wrt = [xs[i] for i in differentiated]
    y = f(*xs)
    grads = torch.autograd.grad(
        (y * weights(y, 1)).sum(), wrt, create_graph=second, allow_unused=True, materialize_grads=True
    )
    if not second:
        return y.detach(), grads, []
    total = sum((g * weights(g, 2)).sum() for g in grads)
    seconds = (
        torch.autograd.grad(total, wrt, allow_unused=True, materialize_grads=True)
        if total.requires_grad
        else [torch.zeros_like(x) for x in wrt]
    )
    return y.detach(), [g.detach() for g in grads], seconds


# PyTorch differentiates these once only, or not by every input; Ebb's second derivatives are held by its own tests.
ONCE = {"ctc_loss", "multi_margin_loss", "multilabel_margin_loss"}


def compare_losses(rows):
    registry = {entry["name"]: entry for entry in ebb.losses.registry}
    for trial in range(TRIALS):
        torch.manual_seed(100 + trial)
        for name, options, tensors, names, theirs in loss_cases.cases():
            row = rows.setdefault(name, Row(name))
            inputs = registry[name]["inputs"]
            positional = len(tensors) - len(names)
            order = [inputs[i][0] for i in range(positional)] + list(names)
            can = {i[0]: i[1] for i in inputs}
            mine = getattr(ebb.torch, name)
            if name == "ctc_loss":  # PyTorch's gradient is that of what log_softmax gave it, Ebb's that of any numbers
                mine, theirs = (lambda x, *t, f=f, **o: f(x.log_softmax(-1), *t, **o) for f in (mine, theirs))
            for dtype in (torch.float64, torch.float32):
                cast = [t.to(dtype) if t.is_floating_point() else t for t in tensors]
                # As PyTorch: the data, not the weights or targets that it does not differentiate.
                wrt = [
                    i
                    for i, t in enumerate(cast)
                    if t.is_floating_point() and can[order[i]] and order[i] not in ("weight", "pos_weight", "target")
                ] or [0]
                if name in ("arcface_loss", "cosface_loss"):
                    wrt = [0, 1]
                second = name not in ONCE
                row.cases += 1
                try:
                    ours = loss_derivatives(
                        lambda *t: mine(*t[:positional], **dict(zip(names, t[positional:])), **options),
                        cast,
                        wrt,
                        second,
                    )
                    reference = loss_derivatives(theirs, cast, wrt, second)
                except Exception as e:  # noqa: BLE001: a case that cannot run is a difference
                    row.failed.append(f"{name} {options} in {dtype}: {type(e).__name__}: {e}")
                    continue
                row.add(dtype, 0, difference(ours[0], reference[0]), options)
                for part in (1, 2):
                    for a, b in zip(ours[part], reference[part]):
                        row.add(dtype, part, difference(a, b), options)


def compare_signatures(failed):
    """The same call, argument by argument, on torch tensors and on Ebb's: value, gradient and second gradient in f64."""

    def first_real(result):
        results = result if isinstance(result, (tuple, list)) else (result,)
        return results[1] if "slogdet" in name else results[0]

    def put(tree, fresh):
        """The arguments with the tensors of fresh in the places of the real ones."""
        if isinstance(tree, (tuple, list)):
            return type(tree)(put(t, fresh) for t in tree)
        if isinstance(tree, dict):
            return {k: put(t, fresh) for k, t in tree.items()}
        if isinstance(tree, (float, int, str)):
            return tree
        if isinstance(tree, torch.dtype):
            return str(tree) if ours_now else tree
        if isinstance(tree, signatures.Fixed):
            return ebb.torch.from_torch(tree.tensor) if ours_now else tree.tensor
        if not isinstance(tree, torch.Tensor):
            return tree
        if tree.is_floating_point():
            return next(fresh)
        return ebb.torch.from_torch(tree) if ours_now else tree

    def reals(tree):
        if isinstance(tree, torch.Tensor):
            return [tree] if tree.is_floating_point() else []
        parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (tuple, list)) else ()
        return [x for part in parts for x in reals(part)]

    for number, (name, args, kwargs) in enumerate(signatures.CALLS):
        plain = name.rpartition(".")[2]
        mine = getattr(ebb.linalg if name.startswith("linalg.") else ebb, plain, None)
        inputs = reals([args, kwargs])
        second = name not in signatures.ONCE and number not in signatures.ONCE_CALLS
        try:
            ours_now = False
            f = signatures.theirs(name)
            expected = torch_derivatives(lambda *t: first_real(f(*put(args, i := iter(t)), **put(kwargs, i))), inputs, second)
            ours_now = True
            found = ebb_derivatives(lambda *t: first_real(mine(*put(args, i := iter(t)), **put(kwargs, i))), inputs, second)
        except Exception as e:  # noqa: BLE001: a call that cannot run is a difference
            failed.append(f"{name} by PyTorch's signature: {type(e).__name__}: {e}")
            continue
        for part, what in enumerate(("value", "gradient", "second gradient")):
            pairs = [(found[0], expected[0])] if part == 0 else list(zip(found[part], expected[part]))
            worst = max((difference(a, b) for a, b in pairs), default=0.0)
            if not worst <= 1e-7:  # celu's numbers are f32 in PyTorch
                failed.append(f"{name} by PyTorch's signature: its {what} differs by {worst:.1e}")
    failed += [f"torch.nn.functional.{name}: nobody calls it" for name in signatures.not_called()]
    print(f"\n{len(signatures.CALLS)} calls by PyTorch's signatures.")


def compare_autocast(failed):
    """In a region of autocast the losses are f32, as PyTorch's, and products of an LM head are bf16."""
    logits, target = torch.randn(64, 100, dtype=torch.bfloat16), torch.randint(0, 100, (64,))
    x, t = torch.randn(64, 8, dtype=torch.bfloat16), torch.randn(64, 8)
    cases = [
        ("cross_entropy", (logits, target)),
        ("nll_loss", (logits.log_softmax(-1), target)),
        ("huber_loss", (x, t)),
        ("smooth_l1_loss", (x, t)),
        ("mse_loss", (x, t)),
        ("kl_div", (logits.log_softmax(-1), torch.rand(64, 100, dtype=torch.bfloat16))),
    ]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for name, inputs in cases:
            ours, theirs = getattr(ebb.torch, name)(*inputs), getattr(F, name)(*inputs)
            if ours.dtype != theirs.dtype or difference(ours, theirs) > 1e-6:
                failed.append(f"{name} under autocast: {ours} beside {theirs}")
        hidden = torch.randn(64, 32, requires_grad=True)
        head = torch.randn(100, 32, requires_grad=True)
        ours = ebb.torch.linear_cross_entropy(hidden, head, target)
        theirs = F.cross_entropy(F.linear(hidden, head), target)
    if ours.dtype != torch.float32 or difference(ours, theirs) > 1e-2:
        failed.append(f"linear_cross_entropy under autocast: {ours} beside {theirs}")
    rounded = ebb.torch.linear_cross_entropy(hidden.bfloat16().float(), head.bfloat16().float(), target)
    if difference(ours, rounded) > 1e-4:
        failed.append(f"linear_cross_entropy under autocast does not multiply in bf16: {ours} beside {rounded}")
    for mine, other in zip(torch.autograd.grad(ours, (hidden, head)), torch.autograd.grad(theirs, (hidden, head))):
        if mine.dtype != torch.float32 or difference(mine, other) > 1e-2:
            failed.append("linear_cross_entropy under autocast: its gradient differs")


def compare_transforms(failed):
    """Losses inside torch.func and torch.compile, as modules, and with a distance of PyTorch's."""
    x, target = torch.randn(4, 8, 5, dtype=torch.float64), torch.randint(0, 5, (4, 8))

    def check(what, ours, theirs):
        if difference(ours, theirs) > 1e-6:
            failed.append(f"{what}: {ours} beside {theirs}")

    def squared_gradient(f):
        return torch.func.grad(lambda x, t: (torch.func.grad(f)(x, t) ** 2).sum())

    def both(transform):
        return transform(ebb.torch.cross_entropy), transform(F.cross_entropy)

    for what, transform, inputs in (
        ("torch.func.grad", torch.func.grad, (x[0], target[0])),
        ("torch.func.grad twice", squared_gradient, (x[0], target[0])),
        ("torch.vmap", torch.vmap, (x, target)),
        ("torch.vmap of torch.func.grad", lambda f: torch.vmap(torch.func.grad(f)), (x, target)),
    ):
        ours, theirs = both(transform)
        check(what, ours(*inputs), theirs(*inputs))

    layer = torch.nn.Linear(5, 5).double()

    def step(f):
        layer.zero_grad()
        f(layer(x[0]), target[0]).backward()
        return layer.weight.grad.clone()

    compiled = torch.compile(lambda x, t: ebb.torch.cross_entropy(x, t), fullgraph=True, backend="aot_eager")
    check("torch.compile(fullgraph=True)", step(compiled), step(F.cross_entropy))

    weight = torch.rand(5, dtype=torch.float64)
    for name, arguments, options, inputs in (
        ("CrossEntropyLoss", (weight,), {"label_smoothing": 0.1}, (x[0], target[0])),
        ("MSELoss", (), {"reduction": "sum"}, (x[0], x[1])),
        ("NLLLoss", (), {"reduction": "none"}, (x[0].log_softmax(-1), target[0])),
        ("HuberLoss", (), {"delta": 0.5}, (x[0], x[1])),
        ("BCEWithLogitsLoss", (), {"pos_weight": weight}, (x[0], torch.rand(8, 5, dtype=torch.float64))),
        ("KLDivLoss", (), {"reduction": "batchmean"}, (x[0].log_softmax(-1), x[1].softmax(-1))),
    ):
        ours, theirs = (getattr(m, name)(*arguments, **options)(*inputs) for m in (ebb.torch, torch.nn))
        check(name, ours, theirs)

    if hasattr(torch.nn, "LinearCrossEntropyLoss"):  # since PyTorch 2.15
        theirs = torch.nn.LinearCrossEntropyLoss(5, 7, bias=True, label_smoothing=0.1, dtype=torch.float64)
        ours = ebb.torch.LinearCrossEntropyLoss(5, 7, bias=True, label_smoothing=0.1, dtype=torch.float64)
        ours.load_state_dict(theirs.state_dict())
        check("LinearCrossEntropyLoss", ours(input=x[0], target=target[0]), theirs(x[0], target[0]))

    def distance(a, b):
        return (a - b).abs().sum(-1)

    triplet = (x[0], x[1], x[2])
    ours, theirs = (
        f.triplet_margin_with_distance_loss(*triplet, distance_function=distance, swap=True) for f in (ebb.torch, F)
    )
    check("triplet_margin_with_distance_loss with a distance", ours, theirs)


def compare_layers(failed):
    """Layers with PyTorch's arguments and PyTorch's weights: results, and gradients to inputs and weights."""
    sequence, later = torch.randn(5, 2, 4, dtype=torch.float64), torch.ones(5, 5, dtype=torch.bool).triu(1)
    wide, padding = torch.randn(5, 2, 8, dtype=torch.float64), torch.tensor([[False] * 5, [False, False, True, True, True]])
    recurrent = {"num_layers": 2, "bidirectional": True}
    cases = [
        ("LSTM", (4, 6), {**recurrent, "proj_size": 3}, (sequence,), {}),
        ("LSTM", (4, 6, 1, False), {"batch_first": True}, (sequence,), {}),
        ("LSTM", (4, 6), {"proj_size": 2}, (sequence[:, 0],), {}),
        ("GRU", (4, 6), recurrent, (sequence,), {}),
        ("GRU", (4, 6), {}, (sequence[:, 0],), {}),
        ("RNN", (4, 6, 2, "relu"), {}, (sequence,), {}),
        ("MultiheadAttention", (8, 2), {}, (wide, wide, wide), {"attn_mask": later, "is_causal": True}),
        ("MultiheadAttention", (8, 2, 0.0, False), {"batch_first": True}, (wide, wide, wide), {"average_attn_weights": False}),
        ("MultiheadAttention", (8, 2), {"add_bias_kv": True, "add_zero_attn": True}, (wide,) * 3, {"key_padding_mask": padding}),
        ("MultiheadAttention", (8, 2), {"kdim": 4, "vdim": 4}, (wide, sequence, sequence), {}),
        ("MultiheadAttention", (8, 2), {}, (wide[:, 0],) * 3, {"need_weights": False}),
    ]

    def flat(result):
        if isinstance(result, (tuple, list)):
            return [x for part in result for x in flat(part)]
        return [] if result is None else [result]

    for name, args, kwargs, inputs, call in cases:
        theirs = getattr(torch.nn, name)(*args, **kwargs, dtype=torch.float64)
        ours = getattr(ebb.nn, name)(*args, **kwargs, dtype="float64")
        ours.load_state_dict({key: ebb.torch.from_torch(t) for key, t in theirs.state_dict().items()})
        given = [x.clone().requires_grad_() for x in inputs]
        expected = flat(theirs(*given, **call))
        sum((y * weights(y, 1)).sum() for y in expected).backward()
        mine = [ebb.variable(ebb.torch.from_torch(x)) for x in inputs]
        words = {k: ebb.torch.from_torch(v) if isinstance(v, torch.Tensor) else v for k, v in call.items()}
        found = flat(ours(*mine, **words))
        pairs = [(ebb.torch.to_torch(y), e.detach()) for y, e in zip(found, expected, strict=True)]
        total = sum((y * ebb.torch.from_torch(weights(ebb.torch.to_torch(y), 1))).sum() for y in found)
        gradients = ebb.backward(total)
        pairs += [(ebb.torch.to_torch(gradients[x]), g.grad) for x, g in zip(mine, given)]
        slopes = dict(theirs.named_parameters())
        pairs += [(ebb.torch.to_torch(gradients[p]), slopes[key].grad) for key, p in ours.named_parameters()]
        worst = max(difference(a, b) for a, b in pairs)
        if not worst <= 1e-10:
            failed.append(f"nn.{name}{args} {kwargs} {list(call)}: differs by {worst:.1e}")
    print(f"{len(cases)} layers with PyTorch's weights.")


def missing(rows):
    declared = {
        name
        for header in sorted((ROOT / "include" / "ebb" / "ops").glob("*.h"))
        for name, _ in documented(header.read_text(encoding="utf-8"))
        if not name.startswith("operator")
    }
    left = declared - set(rows) - set(operations.EXPLAINED)
    return sorted(left)  # of losses, those are compared that PyTorch has, or that the benchmarks have a formula of


def print_table(title, rows):
    print(
        f"\n{title}\n\n{'':34}{'cases':>6}"
        + "".join(
            f"{d + ' ' + p:>18}"
            for d in ("f64", "f32", "bf16")
            for p in ("value", "grad", "2nd")[: 2 if d == "bf16" else 3]
        )
    )
    for row in sorted(rows, key=lambda r: r.name):
        cells = [
            row.worst.get((d, p))
            for d in ("float64", "float32", "bfloat16")
            for p in range(2 if d == "bfloat16" else 3)
        ]
        print(f"{row.name:34}{row.cases:6}" + "".join(f"{'' if c is None else f'{c:.1e}':>18}" for c in cells))


def median_time(f, rounds):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def overhead():
    """What a call costs, both in turn: 1,000 elements from Python, and a language model's cross-entropy inside PyTorch."""
    print("\nWhat a call costs (medians of alternating rounds)\n")
    print(f"{'':66}{'PyTorch':>12}{'Ebb':>12}{'ratio':>8}")
    torch.manual_seed(0)
    torch.set_num_threads(ebb.num_threads())
    x, t = torch.randn(1000, requires_grad=True), torch.rand(1000)
    for name in ("mse_loss", "huber_loss", "smooth_l1_loss", "binary_cross_entropy_with_logits"):
        mine, theirs = getattr(ebb.losses, name), getattr(F, name)
        a, b = ebb.torch.from_torch(x), ebb.torch.from_torch(t)

        def run_theirs():
            x.grad = None
            theirs(x, t).backward()

        def many(f):
            for _ in range(100):
                f()

        both = [
            (median_time(lambda: many(run_theirs), 3), median_time(lambda: many(lambda: mine.value_and_grad(a, b)), 3))
            for _ in range(7)
        ]
        report(
            f"{name}.value_and_grad, 1,000 elements",
            sorted(p for p, _ in both)[3] / 100,
            sorted(e for _, e in both)[3] / 100,
        )
    logits, target = torch.randn(2048, 32000, requires_grad=True), torch.randint(0, 32000, (2048,))

    def step(f):
        logits.grad = None
        f(logits, target).backward()

    for f in (F.cross_entropy, ebb.torch.cross_entropy):
        step(f)
    both = [
        (median_time(lambda: step(F.cross_entropy), 1), median_time(lambda: step(ebb.torch.cross_entropy), 1))
        for _ in range(7)
    ]
    report("ebb.torch.cross_entropy [2048, 32000]", sorted(p for p, _ in both)[3], sorted(e for _, e in both)[3])


def report(title, theirs, ours):
    unit, factor = ("ms", 1e3) if theirs > 1e-2 else ("µs", 1e6)
    print(f"{title:66}{theirs * factor:9.1f} {unit}{ours * factor:9.1f} {unit}{theirs / ours:7.2f}×")


def main():
    torch.manual_seed(1)
    print(
        f"Ebb {ebb.__version__} beside PyTorch {torch.__version__}. Differences are relative to the largest number compared, at least 1."
    )
    operation_rows, loss_rows = {}, {}
    compare_operations(operation_rows)
    compare_losses(loss_rows)
    print_table("Operations", operation_rows.values())
    print_table("Losses, through ebb.torch", loss_rows.values())
    print("\nCompared loosely, because PyTorch has fewer digits:", ", ".join(sorted(operations.ROUGH)))
    print("\nNot compared:")
    for name, reason in operations.EXPLAINED.items():
        print(f"  {name}: {reason}")
    for name in sorted(ONCE | operations.ONCE):
        print(f"  {name}: its second gradient; PyTorch differentiates it once")
    failed = [text for row in (*operation_rows.values(), *loss_rows.values()) for text in row.failed]
    failed += [f"{name}: nobody compares it" for name in missing({**operation_rows, **loss_rows})]
    compare_signatures(failed)
    compare_layers(failed)
    compare_autocast(failed)
    compare_transforms(failed)
    overhead()
    print(f"\n{len(operation_rows)} operations and {len(loss_rows)} losses, {len(failed)} unexplained.")
    for text in failed:
        print(f"  {text}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
