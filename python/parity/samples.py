# SPDX-License-Identifier: MIT
"""PyTorch's own sample inputs, of the tests of its operations and modules, given to the functions and layers of the same names.

A sample is called by PyTorch's signature, with whatever options its tests think of; values and gradients must agree, or a
reason is stated here. Then every layer is made once more with all of PyTorch's arguments written out, by position and by
keyword. Prints a row for each reason and ends with 1 if a sample differs without one.
"""

import collections
import inspect
import sys
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db

import ebb
import ebb.torch
import signatures
from compare import difference, ebb_derivatives, torch_derivatives

MOST = 60  # samples of an operation: some have a thousand that differ in numbers alone
warnings.filterwarnings("ignore")

RANDOM = "draws random numbers"
SCALAR = "a tensor without axes has no axis 0"
# Functions that are called otherwise, on purpose (docs/from_pytorch.md), or of which the samples are of something else.
EXPLAINED = {
    **dict.fromkeys(
        "randn randn_like rand_like randint randint_like multinomial normal bernoulli nn.functional.rrelu "
        "nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d nn.functional.alpha_dropout "
        "nn.functional.feature_alpha_dropout".split(),
        RANDOM,
    ),
    **dict.fromkeys(("max", "min", "median"), "with an axis gives the values alone"),
    **dict.fromkeys(("empty", "empty_like"), "gives zeros"),
    "slice": "is x[...] there",
    "triangular_solve": "takes (A, b), as linalg.solve_triangular does",
    "svd": "is linalg.svd(full_matrices=False)",
    "linalg.lstsq": "gives residuals, rank and singular values whatever the driver",
    "nn.functional.triplet_margin_with_distance_loss": "gets a distance of PyTorch's; compared with the transforms",
}
# Words of an error, or properties of a sample, that mark known differences.
PARTLY = [
    (("a scalar has no axes", "the input must be [C] or [N, C], but it has shape []", "the input is a scalar"), SCALAR),
    (("there is no max_norm", "there is no scale_grad_by_freq"), "PyTorch writes to its table, or counts its indices"),
    (("for an input of shape [5] must have shape []",), "the target of one row is a number"),
    (("an index must be i64 or i32, got u8",), "bytes are not indices"),
    (("target must be 1 or -1",), "targets are checked"),
    (("logit: eps must be in",), "bounds that exclude everything are an error"),
    (("tensordot: axes",), "sizes of one do not broadcast, by the array API"),
    (("nothing to choose from in a tensor of shape",), "a norm of no elements that is a maximum is an error"),
    (("SparseCPU",), "the gradient is dense"),
    (("batch_norm: needs [N, C, ...], got shape [0]",), "a batch has channels"),
]
GRADIENTS = {  # of single functions
    "cov": "of weights: PyTorch subtracts numbers that are nearly equal",
    "hypot": "PyTorch's overflows",
    "linalg.pinv": "hermitian=True reads the lower triangle, so that alone has a gradient",
    "nn.functional.ctc_loss": "PyTorch's is that of what log_softmax gave it",
    "nn.functional.linear_cross_entropy": "class weights are not differentiated",
    **dict.fromkeys([f"nn.functional.max_unpool{axes}d" for axes in (1, 2, 3)], "what was overwritten has none"),
    "quantile": "q is a number",
}


def reason_of(name, sample, error):
    """Why a sample may differ, or None."""
    for texts, reason in PARTLY:
        if any(text in error for text in texts):
            return reason
    if "gradients" in error and name in GRADIENTS:
        return "gradient: " + GRADIENTS[name]
    if sample.kwargs.get("dropout_p") or name.endswith("multi_head_attention_forward") and sample.args[9]:
        return RANDOM
    if name == "nn.functional.softplus" and "threshold" in sample.kwargs:
        return "softplus is exact and needs no threshold"
    if name == "cov" and "values" in error:
        return "weights of f32 do not cost f64's digits"
    if name in ("linalg.eigh", "linalg.svd") and "differ" in error:
        return "vectors have any sign, and any basis where values are equal or missing"
    return None


# PyTorch's tests call these by functions of their own, in another order.
ORDER = {
    "where": lambda f: lambda a, mask, b: f(mask, a, b),
    "einsum": lambda f: lambda operands, equation: f(equation, *operands),
    "polygamma": lambda f: lambda x, n: f(n, x),
    "special.polygamma": lambda f: lambda x, n: f(n, x),
    "nn.functional.embedding": lambda f: lambda weight, index, **options: f(index, weight, **options),
    "nn.functional.embedding_bag": lambda f: lambda weight, index, **options: f(index, weight, **options),
    "unfold": lambda _: ebb.Tensor.unfold,  # F.unfold is nn.functional.unfold
    ("linalg.pinv", "singular"): lambda f: lambda a, b: f(a @ b.mT),
}


def converted(tree):
    """The arguments as Ebb's users write them."""
    if isinstance(tree, torch.Tensor):
        return ebb.torch.from_torch(tree.detach().contiguous())
    if isinstance(tree, torch.dtype):
        return getattr(ebb, str(tree).removeprefix("torch."))
    if isinstance(tree, dict):
        return {key: converted(value) for key, value in tree.items()}
    if isinstance(tree, (tuple, list)):
        return tuple(map(converted, tree)) if isinstance(tree, tuple) else list(map(converted, tree))
    return str(tree) if isinstance(tree, torch.device) else tree


def flat(result):
    if isinstance(result, (tuple, list)):
        return [x for part in result for x in flat(part)]
    return [] if result is None else [result]


def on_torchs_side(x):
    return ebb.torch.to_torch(x) if isinstance(x, ebb.Tensor) else torch.as_tensor(x)


def reals(tree):
    """The tensors that PyTorch can differentiate by, in order."""
    if isinstance(tree, torch.Tensor):
        return [tree] if tree.is_floating_point() else []
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (tuple, list)) else ()
    return [x for part in parts for x in reals(part)]


def replaced(tree, fresh, convert):
    """The arguments with the tensors of `fresh` in the places of the real ones."""
    if isinstance(tree, torch.Tensor):
        return next(fresh) if tree.is_floating_point() else convert(tree)
    if isinstance(tree, dict):
        return {key: replaced(value, fresh, convert) for key, value in tree.items()}
    if isinstance(tree, (tuple, list)):
        made = [replaced(value, fresh, convert) for value in tree]
        return tuple(made) if isinstance(tree, tuple) else made
    return convert(tree)


def same(found, expected):
    found, expected = flat(found), flat(expected)
    if len(found) != len(expected):
        raise AssertionError(f"{len(found)} results for {len(expected)}")
    for a, b in zip(found, expected):
        a, b = on_torchs_side(a), torch.as_tensor(b).detach()
        worst = difference(a, b)
        if not worst <= 1e-7:
            raise AssertionError(f"the values of shape {tuple(a.shape)} and {tuple(b.shape)} differ by {worst:.1e}")


def compare_gradients(theirs, ours, sample, expected):
    """First gradients of the first result, by everything real that PyTorch differentiates by."""
    arguments = [sample.input, list(sample.args), dict(sample.kwargs)]
    inputs = reals(arguments)
    if not inputs or not isinstance(flat(expected)[0], torch.Tensor):
        return

    def caller(f, convert):
        def call(*tensors):
            first, args, kwargs = replaced(arguments, iter(tensors), convert)
            return flat(f(first, *args, **kwargs))[0]

        return call

    try:
        _, reference, _ = torch_derivatives(caller(theirs, lambda x: x), inputs, False)
    except Exception:  # noqa: BLE001: PyTorch does not differentiate by one of them
        return
    _, mine, _ = ebb_derivatives(caller(ours, converted), inputs, False)
    for a, b in zip(mine, reference):
        worst = difference(a, b)
        if not worst <= 1e-6:
            raise AssertionError(f"the gradients of shape {tuple(a.shape)} differ by {worst:.1e}")


def compare_method(op, sample):
    """x.name(...), where PyTorch's tensors have that method."""
    if op.method_variant is None or "." in op.name or not isinstance(sample.input, torch.Tensor):
        return
    expected = op.method_variant(sample.input, *sample.args, **sample.kwargs)
    same(getattr(converted(sample.input), op.name)(*converted(sample.args), **converted(sample.kwargs)), expected)


def our_function(name, variant):
    holder, _, plain = name.rpartition(".")
    if holder not in ("", "linalg", "special", "nn.functional") or plain.startswith("_"):
        return None
    holders = {"linalg": ebb.linalg, "nn.functional": ebb.nn.functional}
    function = getattr(holders.get(holder, ebb), plain, None)
    if not inspect.isroutine(function):
        return None
    order = ORDER.get((name, variant), ORDER.get(name))
    return function if order is None else order(function)


def compare_operations(reasons, failed):
    functions, count, missing = set(), 0, set()
    for op in op_db:
        ours = our_function(op.name, op.variant_test_name)
        if ours is None or op.variant_test_name == "in_place":
            missing.add(op.name)
            continue
        numbers = [torch.float64, torch.int64, torch.bool]
        dtype = next((t for t in numbers if op.supports_dtype(t, "cpu")), None)
        if dtype is None:
            continue
        torch.manual_seed(0)
        functions.add(op.name)
        for sample in list(op.sample_inputs("cpu", dtype, requires_grad=False))[:MOST]:
            try:
                expected = op.op(sample.input, *sample.args, **sample.kwargs)
            except Exception:  # noqa: BLE001: not on this machine
                continue
            count += 1
            try:
                same(ours(converted(sample.input), *converted(sample.args), **converted(sample.kwargs)), expected)
                compare_method(op, sample)
                if op.supports_autograd and dtype == torch.float64 and op.name not in EXPLAINED:
                    compare_gradients(op.op, ours, sample, expected)
            except Exception as e:  # noqa: BLE001: whatever it is, the sample differs
                error = f"{type(e).__name__}: {str(e).splitlines()[0]}"
                reason = EXPLAINED.get(op.name) or reason_of(op.name, sample, error)
                if reason:
                    reasons[f"{op.name}: {reason}"] += 1
                else:
                    failed.append(f"{op.name} {op.variant_test_name} {describe(sample)}: {error}")
    print(f"{count} samples of {len(functions)} operations; {len(missing - functions)} have no function of that name.")


def describe(sample):
    def shown(tree):
        if isinstance(tree, torch.Tensor):
            return str(list(tree.shape))
        if isinstance(tree, dict):
            return ", ".join(f"{key}={shown(value)}" for key, value in tree.items())
        if isinstance(tree, (tuple, list)):
            return "(" + ", ".join(map(shown, tree)) + ")"
        return repr(tree)

    return f"({shown(sample.input)}, {shown(sample.args)[1:-1]}, {shown(sample.kwargs)})"[:200]


def compare_modules(reasons, failed):
    layers, count = set(), 0
    for info in module_db:
        cls, name = info.module_cls, info.module_cls.__name__
        if not hasattr(ebb.nn, name):
            continue
        layers.add(name)
        first = None
        for training in (True, False) if info.train_and_eval_differ else (True,):
            given = {"device": "cpu", "dtype": torch.float64, "requires_grad": False, "training": training}
            for sample in info.module_inputs_func(info, **given)[: 3 * MOST]:
                made, call = sample.constructor_input, sample.forward_input
                first = first or made
                if call is None:
                    continue
                theirs = cls(*made.args, **made.kwargs).double().train(training)
                count += 1
                try:
                    ours = getattr(ebb.nn, name)(*converted(made.args), **converted(made.kwargs)).double().train(training)
                    ours.load_state_dict({key: ebb.torch.from_torch(t.clone()) for key, t in theirs.state_dict().items()})
                    expected = theirs(*call.args, **call.kwargs)
                    same(ours(*converted(call.args), **converted(call.kwargs)), expected)
                except Exception as e:  # noqa: BLE001
                    error = f"{type(e).__name__}: {str(e).splitlines()[0]}"
                    reason = reason_of(name, call, error)
                    if name == "Softplus" and "differ" in error:
                        reason = "softplus is exact and needs no threshold"
                    if reason:
                        reasons[f"nn.{name}: {reason}"] += 1
                    else:
                        failed.append(f"nn.{name}{made.args} {made.kwargs}: {error}")
        compare_arguments(name, cls, first, failed)
    print(f"{count} samples of {len(layers)} layers, each of them also made with all of PyTorch's arguments.")


def compare_arguments(name, cls, made, failed):
    """All arguments of PyTorch's constructor, the defaults too, by position and by keyword."""
    signature = inspect.signature(cls)
    kinds = {p.kind for p in signature.parameters.values()}
    if inspect.Parameter.VAR_POSITIONAL in kinds or inspect.Parameter.VAR_KEYWORD in kinds:
        return  # it has no list of its own
    bound = signature.bind(*made.args, **made.kwargs)
    bound.apply_defaults()
    for args, kwargs in ((bound.args, bound.kwargs), ((), dict(bound.arguments))):
        try:
            getattr(ebb.nn, name)(*converted(args), **converted(kwargs))
        except Exception as e:  # noqa: BLE001
            failed.append(f"nn.{name}{signature}: {str(e).splitlines()[0]}")


def unfixed(tree):
    """A call of signatures.py with plain tensors."""
    if isinstance(tree, signatures.Fixed):
        return tree.tensor
    if isinstance(tree, dict):
        return {key: unfixed(value) for key, value in tree.items()}
    return type(tree)(map(unfixed, tree)) if isinstance(tree, (tuple, list)) else tree


def compare_signatures(failed):
    """The calls of signatures.py once more, with all of PyTorch's arguments written out, by position and by keyword."""
    known, calls = torch.overrides.get_testing_overrides(), 0
    for name, args, kwargs in signatures.CALLS:
        theirs = signatures.theirs(name)
        args, kwargs = unfixed(args), unfixed(kwargs)
        try:
            signature = inspect.signature(known.get(theirs, theirs) if inspect.isbuiltin(theirs) else theirs)
            bound = signature.bind(*args, **kwargs)
        except (ValueError, TypeError):  # of several overloads, one is known
            continue
        bound.apply_defaults()
        given = {key: value for key, value in bound.arguments.items() if key != "out"}
        named = [key for key, p in signature.parameters.items() if p.kind == p.KEYWORD_ONLY and key in given]
        positional = [value for key, value in given.items() if key not in named]
        ours = getattr(ebb.linalg if name.startswith("linalg.") else ebb, name.rpartition(".")[2])
        expected = theirs(*args, **kwargs)
        for way in ((positional, {key: given[key] for key in named}), ((), given)):
            try:
                theirs(*way[0], **way[1])
            except Exception:  # noqa: BLE001: PyTorch's overrides say it otherwise than PyTorch
                continue
            calls += 1
            try:
                same(ours(*converted(way[0]), **converted(way[1])), expected)
            except Exception as e:  # noqa: BLE001
                if name not in WRONG_THERE:
                    failed.append(f"{name}{signature}: {str(e).splitlines()[0]}")
    print(f"{calls} calls with all of PyTorch's arguments.")


WRONG_THERE = {"topk", "norm"}  # torch.overrides calls largest descending, and puts out before dtype


def main():
    reasons, failed = collections.Counter(), []
    compare_operations(reasons, failed)
    compare_modules(reasons, failed)
    compare_signatures(failed)
    print(f"\nDifferent, and why ({sum(reasons.values())} samples):")
    for text, times in sorted(reasons.items()):
        print(f"  {times:5}  {text}")
    print(f"\n{len(failed)} samples differ without a reason.")
    for text in failed:
        print(f"  {text}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
