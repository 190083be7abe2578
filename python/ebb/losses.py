# SPDX-License-Identifier: MIT
"""Every loss of the registry as a function. Each has two companions:

value, grad = ebb.losses.mse_loss.value_and_grad(input, target)     computed now, in one sweep
gradients = ebb.losses.mse_loss_backward(grad, input, target)       one cotangent for each input
"""

import functools
import keyword
from collections import namedtuple

from . import _core

registry = _core._losses()
__all__ = []


def argument_name(option):
    """The option's name, with an underscore behind a word that Python keeps for itself: lambda_."""
    return option + "_" if keyword.iskeyword(option) else option


# torch.nn's names of losses whose function is called otherwise.
_CLASS_NAMES = {
    "l1_loss": "L1Loss",
    "mse_loss": "MSELoss",
    "nll_loss": "NLLLoss",
    "binary_cross_entropy": "BCELoss",
    "binary_cross_entropy_with_logits": "BCEWithLogitsLoss",
    "cross_entropy": "CrossEntropyLoss",
    "ctc_loss": "CTCLoss",
    "gaussian_nll_loss": "GaussianNLLLoss",
    "kl_div": "KLDivLoss",
    "multilabel_margin_loss": "MultiLabelMarginLoss",
    "multilabel_soft_margin_loss": "MultiLabelSoftMarginLoss",
    "poisson_nll_loss": "PoissonNLLLoss",
    "smooth_l1_loss": "SmoothL1Loss",
}


def class_name(loss):
    """The name of a loss's class: torch.nn's where there is one, else the function's words: FocalLoss."""
    words = "".join(word.capitalize() for word in loss.split("_"))
    return _CLASS_NAMES.get(loss, words if words.endswith("Loss") else words + "Loss")


# What follows the inputs of torch.nn.functional's losses, in its order; what else a loss has is given by keyword.
_LEGACY = ("size_average", "reduce")  # what reduction was called once
TORCH_ORDER = {
    name: order.split()
    for name, order in {
        "binary_cross_entropy": "weight size_average reduce reduction",
        "binary_cross_entropy_with_logits": "weight size_average reduce reduction pos_weight",
        "cosine_embedding_loss": "margin size_average reduce reduction",
        "cross_entropy": "weight size_average ignore_index reduce reduction label_smoothing",
        "ctc_loss": "blank reduction zero_infinity",
        "gaussian_nll_loss": "full eps reduction",
        "hinge_embedding_loss": "margin size_average reduce reduction",
        "huber_loss": "reduction delta weight",
        "kl_div": "size_average reduce reduction log_target",
        "l1_loss": "size_average reduce reduction weight",
        "margin_ranking_loss": "margin size_average reduce reduction",
        "mse_loss": "size_average reduce reduction weight",
        "multi_margin_loss": "p margin weight size_average reduce reduction",
        "multilabel_margin_loss": "size_average reduce reduction",
        "multilabel_soft_margin_loss": "weight size_average reduce reduction",
        "nll_loss": "weight size_average ignore_index reduce reduction",
        "poisson_nll_loss": "log_input full size_average eps reduce reduction",
        "smooth_l1_loss": "size_average reduce reduction beta",
        "soft_margin_loss": "size_average reduce reduction",
        "triplet_margin_loss": "margin p eps swap size_average reduce reduction",
    }.items()
}
# Inputs that PyTorch takes as lists or as one number.
_NUMBERS = {"ctc_loss": ("input_lengths", "target_lengths"), "gaussian_nll_loss": ("var",)}
# PyTorch's names of inputs that are called otherwise here.
_SPELLED = {"linear_cross_entropy": {"input": "x", "linear_weight": "head", "linear_bias": "bias"}}


def legacy_reduction(size_average, reduce):
    """The reduction that PyTorch's older arguments mean."""
    if reduce is not None and not reduce:
        return "none"
    return "mean" if size_average is None or size_average else "sum"


class _Text:
    """The pieces of a loss's source: its arguments and its documentation."""

    def __init__(self, number, entry):
        self.number = number
        self.name = entry["name"]
        self.inputs = entry["inputs"]
        self.options = [(argument_name(name), default, meaning) for name, default, meaning in entry["options"]]
        self.entry = entry

    def arranged(self):
        """Names of the arguments: (inputs, by position or keyword, by keyword)."""
        required = [name for name, _, optional in self.inputs if not optional]
        optional = [name for name, _, optional in self.inputs if optional]
        options = [name for name, *_ in self.options]
        order = TORCH_ORDER.get(self.name, optional)
        return required, order, [name for name in optional + options if name not in order]

    def parameters(self):
        required, order, named = self.arranged()
        number = {name: k for k, (name, *_) in enumerate(self.options)}
        spelled = {name: f"{name}=_default{number[name]}" if name in number else f"{name}=None" for name in order + named}
        return ", ".join(required + [spelled[n] for n in order] + (["*"] if named else []) + [spelled[n] for n in named])

    def takes_more_by_keyword(self):
        return bool(self.arranged()[2])

    def preparation(self):
        """Statements before the call: what PyTorch's spelling needs."""
        lines = [f"{name} = _number_tensor({name}, {self.inputs[0][0]})" for name in _NUMBERS.get(self.name, ())]
        if _LEGACY[0] in TORCH_ORDER.get(self.name, ()):
            lines.append("if size_average is not None or reduce is not None:")
            lines.append("    reduction = _legacy_reduction(size_average, reduce)")
        return "".join(f"{line}\n    " for line in lines)

    def arguments(self):
        return ", ".join([name for name, *_ in self.inputs] + [name for name, *_ in self.options])

    def doc(self):
        lines = [f"{self.entry['formula']}", "", f"A loss of the family {self.entry['family']}.", "", "Inputs:"]
        for name, differentiable, optional in self.inputs:
            kind = "a tensor" if differentiable else "a tensor, not differentiated"
            lines.append(f"    {name}: {kind}{'; may be left out' if optional else ''}")
        if self.options:
            lines += ["", "Options:"]
            lines += [f"    {name}: {meaning} (default {default!r})" for name, default, meaning in self.options]
        return "\n".join(lines)


def define(text, body, name, parameters, names):
    """A function with a signature of its own, as if it stood in a file. The names it uses are in its closure, not among its globals:
    torch.compile looks for those in the module of that __name__, where there are none.
    """
    used = {f"_default{k}": default for k, (_, default, _) in enumerate(text.options)}
    used.update({"_number_tensor": _number_tensor, "_legacy_reduction": legacy_reduction}, **names)
    scope = {"__name__": __name__}
    source = f"def make({', '.join(used)}):\n  def {name}({parameters}):\n    {text.preparation()}{body}\n  return {name}\n"
    exec(source, scope)
    made = scope["make"](**used)
    made.__qualname__ = name
    return _also_called(made, _SPELLED[text.name]) if text.name in _SPELLED else made


def _number_tensor(x, like):
    """Lengths given as a list, a variance given as a number."""
    if isinstance(x, (list, tuple, int)):
        return _core._numbers_of_formula(x)
    return _core.full([], x, dtype=like.dtype) if isinstance(x, float) else x


def _also_called(function, names):
    """The function with other names for some of its arguments; None for ignore_index is its default, as in PyTorch."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        for theirs, ours in names.items():
            if theirs in kwargs:
                if ours in kwargs:
                    raise TypeError(f"{function.__name__}: {theirs} and {ours} are the same argument, given twice")
                kwargs[ours] = kwargs.pop(theirs)
        if kwargs.get("ignore_index", 0) is None:
            del kwargs["ignore_index"]
        options = kwargs.pop("options", None)  # PyTorch's LinearCrossEntropyOptions: how to compute, not what
        if getattr(options, "batch_chunk_size", None):
            kwargs.setdefault("chunk", options.batch_chunk_size)
        return function(*args, **kwargs)

    return call


def _positions(text, wrt):
    """Positions of the inputs to differentiate by, from their names."""
    names = [name for name, *_ in text.inputs]
    for name in (wrt,) if isinstance(wrt, str) else wrt:
        if name not in names:
            raise ValueError(
                f"{text.name}: there is no input '{name}' to differentiate by; there are {', '.join(names)}"
            )
        yield names.index(name)


def _make(number, entry):
    text = _Text(number, entry)
    loss = define(
        text, f"return _loss({number}, {text.arguments()})", text.name, text.parameters(), {"_loss": _core._loss}
    )
    loss.__doc__ = text.doc()
    loss.info = entry

    first = text.inputs[0][0]
    by_name = {}  # positions of a wrt that was seen before

    def positions(wrt):
        found = by_name.get(wrt)
        if found is None:
            found = by_name[wrt] = list(_positions(text, wrt))
        return found

    has_options = text.takes_more_by_keyword()
    both = define(
        text,
        f"return _both({number}, _positions(wrt), {text.arguments()})",
        "value_and_grad",
        text.parameters() + ("" if has_options else ", *") + f", wrt={first!r}",
        {"_both": _core._loss_value_and_grad, "_positions": positions},
    )
    both.__doc__ = (
        f"The value of {text.name} and its gradient, computed now in one sweep. wrt names the input to "
        f"differentiate by, or several for a list of gradients.\n\n{text.doc()}"
    )
    both.__qualname__ = f"{text.name}.value_and_grad"
    loss.value_and_grad = both

    title = "".join(word.capitalize() for word in text.name.split("_")) + "Gradients"
    result = namedtuple(title, [name for name, *_ in text.inputs])
    backward = define(
        text,
        f"return _result(*_backward({number}, grad, False, {text.arguments()}))",
        f"{text.name}_backward",
        "grad, " + text.parameters(),
        {"_backward": _core._loss_backward, "_result": result},
    )
    backward.__doc__ = (
        f"The cotangents of the inputs of {text.name} for the cotangent grad of its result; None where "
        f"there is none.\n\n{text.doc()}"
    )
    return loss, backward


for _number, _entry in enumerate(registry):
    _loss, _backward = _make(_number, _entry)
    globals()[_loss.__name__], globals()[_backward.__name__] = _loss, _backward
    __all__ += [_loss.__name__, _backward.__name__]

_plain_triplet = triplet_margin_with_distance_loss  # noqa: F821


def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1, swap=False, reduction="mean"
):
    if distance_function is None:
        return _plain_triplet(anchor, positive, negative, margin=margin, swap=swap, reduction=reduction)
    return _core._triplet_margin_with_distance(anchor, positive, negative, distance_function, margin, swap, reduction)


triplet_margin_with_distance_loss.__doc__ = (
    _plain_triplet.__doc__
    + "\n    distance_function: d(x, y) of two tensors, one number a row (default ‖x − y + 1e-6‖)"
)
triplet_margin_with_distance_loss.info = _plain_triplet.info
triplet_margin_with_distance_loss.value_and_grad = _plain_triplet.value_and_grad
