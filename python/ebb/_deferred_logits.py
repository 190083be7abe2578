# SPDX-License-Identifier: MIT
"""Logits that exist once somebody looks at them: what the head of a patched model returns (_huggingface.py).

The product of hidden states and an LM head stays a pair of tensors while it is scaled, capped by tanh, cast, flattened or
indexed by rows, or while another such product (a LoRA adapter's) is added to it; its cross-entropy is
linear_cross_entropy. Any other use computes what the model's own code would have computed, from the head's product on, so
that programs that look at logits get them.

Plain objects with __torch_function__ rather than a subclass of torch.Tensor: torch.compile traces through them.
"""

import threading
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F

# .active: heads defer their products; .rounds: options by which their losses round; .sharded: their layers that need care; .fused:
# how many losses were computed without logits
here = threading.local()

LINEAR = torch._C._nn.linear  # F.linear, unless somebody replaced that (DeepSpeed's ZeRO-3 does)

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_LOSSLESS = (torch.float32, torch.float16, torch.bfloat16)


def _values(x):
    """Arguments of a function with tensors in place of what is deferred."""
    if isinstance(x, Deferred):
        return x.value()
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return type(x)([_values(part) for part in x])
    if isinstance(x, dict):
        return {key: _values(part) for key, part in x.items()}
    return x


def _is_in_place(name):
    return name.endswith("_") and not name.endswith("__")


class Deferred:
    """A tensor that need not have been computed; value() is it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is LINEAR:
            return _linear(*args, **kwargs)
        if func is F.cross_entropy:
            return _cross_entropy(*args, **kwargs)
        first = args[0] if args else None
        if func is F.dropout and isinstance(first, HiddenStates):
            return HiddenStates(F.dropout(first.tensor, *args[1:], **kwargs))
        if func in (F.log_softmax, torch.log_softmax) and isinstance(first, Logits):
            return first.log_softmax(*args[1:], **kwargs)
        if func is torch.tanh and isinstance(first, Logits):
            return first.tanh()
        if _is_in_place(getattr(func, "__name__", "")) and isinstance(first, Logits):
            first.root.written = True
        return func(*_values(args), **_values(kwargs))

    def __getattr__(self, name):
        if name.startswith("__"):  # protocols that a tensor's answer would mislead: pickling, copying, arrays by address
            raise AttributeError(name)
        if _is_in_place(name) and isinstance(self, Logits):
            self.root.written = True
        found = getattr(self.value(), name)
        return (lambda *args, **kwargs: found(*_values(args), **_values(kwargs))) if callable(found) else found

    def __setitem__(self, index, value):
        if isinstance(self, Logits):
            self.root.written = True
        self.value()[_values(index)] = _values(value)

    def __array__(self, *args, **kwargs):
        return self.value().__array__(*args, **kwargs)

    def __len__(self):
        return self.shape[0]

    __hash__ = object.__hash__


def _operator(name):
    def apply(self, *args):
        return getattr(self.value(), name)(*_values(args))

    apply.__name__ = name
    return apply


_TWO_SIDED = "add sub mul truediv floordiv mod pow matmul and or xor"
for _name in (
    "eq ne lt le gt ge neg pos abs invert bool int float index contains iter getitem".split()
    + _TWO_SIDED.split()
    + ["r" + name for name in _TWO_SIDED.split()]
):
    setattr(Deferred, f"__{_name}__", _operator(f"__{_name}__"))


class HiddenStates(Deferred):
    """A tensor on its way into a head: its product with a weight is deferred, anything else sees the tensor."""

    def __init__(self, tensor):
        self.tensor = tensor

    def value(self):
        return self.tensor

    @property
    def shape(self):
        return self.tensor.shape

    @property
    def dtype(self):
        return self.tensor.dtype

    def to(self, *args, **kwargs):
        return HiddenStates(self.tensor.to(*args, **kwargs))


class Product(NamedTuple):
    """factor·x·weightᵀ; owner is the layer that makes the weight available (_sharded_heads.py)."""

    x: torch.Tensor
    weight: torch.Tensor
    factor: float = 1.0
    owner: Any = None

    @property
    def classes(self):
        return self.weight.shape[0] if self.owner is None else self.owner.classes


def _with_weights(products, compute, done=()):
    """compute(products) while all their weights are there."""
    if not products:
        return compute(done)
    first, rest = products[0], products[1:]
    if first.owner is None:
        return _with_weights(rest, compute, (*done, first))
    return first.owner.around(first.x, lambda x, w: _with_weights(rest, compute, (*done, first._replace(x=x, weight=w))))


class Logits(Deferred):
    """cap·tanh(Σ factor·x·weightᵀ + Σ factor·bias), or the sums alone where there is no cap.

    products are those of the sum, biases pairs (bias, factor). `made` says how the model's code makes it: a method of the
    logits that it comes from, with arguments; the first ones come from F.linear.
    """

    def __init__(self, products, biases, cap, dtype, root, made):
        self.products, self.biases, self.cap, self.dtype = products, biases, cap, dtype
        self.root = self if root is None else root
        self.made = made
        self.written = False  # in place, which the factors do not know of
        self._value = None

    def value(self):
        if self._value is None:
            if self.root is self:
                product, bias = self.products[0], self.biases[0][0] if self.biases else None
                if product.owner is not None:
                    self._value = product.owner.product(product.x)
                else:
                    _require_present(product.weight)
                    self._value = F.linear(product.x, product.weight, bias)
            else:
                source, name, args, kwargs = self.made
                self._value = getattr(source.value(), name)(*_values(args), **kwargs)
        return self._value

    def _then(self, name, *args, products=None, biases=None, cap=None, dtype=None, **kwargs):
        return Logits(
            self.products if products is None else products,
            self.biases if biases is None else biases,
            self.cap if cap is None else cap,
            self.dtype if dtype is None else dtype,
            self.root,
            (self, name, args, kwargs),
        )

    def __repr__(self):
        return f"Logits({tuple(self.shape)}, {self.dtype}{', not computed' if self._value is None else ''})"

    # ---- what is known without computing them

    @property
    def shape(self):
        return torch.Size((*self.products[0].x.shape[:-1], self.products[0].classes))

    @property
    def ndim(self):
        return self.products[0].x.ndim

    @property
    def device(self):
        return self.products[0].x.device

    @property
    def is_cuda(self):
        return self.products[0].x.is_cuda

    @property
    def requires_grad(self):
        return torch.is_grad_enabled() and any(p.x.requires_grad or p.weight.requires_grad for p in self.products)

    def dim(self):
        return self.ndim

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def numel(self):
        return self.shape.numel()

    def is_floating_point(self):
        return True

    # ---- what keeps them deferred

    def float(self):
        return self._cast("float", (), {}, torch.float32)

    def to(self, *args, **kwargs):
        dtype, known = kwargs.get("dtype"), True
        for x in args:
            if isinstance(x, torch.dtype):
                dtype = x
            elif not isinstance(x, (bool, torch.device)) or (isinstance(x, torch.device) and x != self.device):
                known = False
        if not known or not set(kwargs) <= {"dtype", "non_blocking", "copy"}:
            return self.value().to(*_values(args), **kwargs)
        return self._cast("to", args, kwargs, self.dtype if dtype is None else dtype)

    def _cast(self, name, args, kwargs, dtype):
        if dtype != self.dtype and dtype not in _LOSSLESS:
            return getattr(self.value(), name)(*args, **kwargs)
        return self._then(name, *args, dtype=dtype) if not kwargs else self._then("to", dtype, dtype=dtype)

    def contiguous(self):
        return self._then("contiguous")

    # A tensor-parallel head's own: logits in parts, which are gathered if somebody looks at them.

    @property
    def placements(self):
        return self.value().placements if self._value is not None or self.made is not None else _of_logits(self.products[0].weight)

    def redistribute(self, *args, **kwargs):
        return self._then("redistribute", *args, **kwargs)

    def to_local(self, **kwargs):
        return self._then("to_local", **kwargs)

    def _rows(self, change, name, *args, **kwargs):
        """The same change of all hidden states, which are rows of the logits but for their last axis."""
        return self._then(name, *args, products=tuple(p._replace(x=change(p.x)) for p in self.products), **kwargs)

    def view(self, *shape):
        return self._reshaped("view", shape)

    def reshape(self, *shape):
        return self._reshaped("reshape", shape)

    def _reshaped(self, name, shape):
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if isinstance(sizes[0], torch.dtype) or sizes[-1] != self.shape[-1]:
            return getattr(self.value(), name)(*shape)
        return self._rows(lambda x: x.reshape(*sizes[:-1], x.shape[-1]), name, *shape)

    def flatten(self, start_dim=0, end_dim=-1):
        last = end_dim if end_dim >= 0 else end_dim + self.ndim
        if last >= self.ndim - 1:
            return self.value().flatten(start_dim, end_dim)
        return self._rows(lambda x: x.flatten(start_dim, end_dim), "flatten", start_dim, end_dim)

    def __getitem__(self, index):
        leading = _leading_index(index, self.ndim)
        if leading is None and self._is_local() and (count := _first_classes(index, self.ndim)) is not None:
            return self._then(
                "__getitem__",
                index,
                products=tuple(p._replace(weight=p.weight[:count]) for p in self.products),
                biases=tuple((b[:count], f) for b, f in self.biases),
            )
        if leading is None:
            return self.value()[_values(index)]
        return self._rows(lambda x: x[leading], "__getitem__", index)

    def tanh(self):
        return self._then("tanh", cap=1.0) if self.cap is None else self.value().tanh()

    def log_softmax(self, dim=None, *args, **kwargs):
        from ._deferred_log_probs import log_softmax

        return log_softmax(self, dim, *args, **kwargs)

    def _scaled(self, name, other, factor):
        if self.cap is not None:
            return self._then(name, other, cap=self.cap * factor)
        return self._then(
            name,
            other,
            products=tuple(p._replace(factor=p.factor * factor) for p in self.products),
            biases=tuple((b, f * factor) for b, f in self.biases),
        )

    def __mul__(self, other):
        return self._scaled("__mul__", other, other) if _is_number(other) else self.value() * _values(other)

    __rmul__ = mul = __mul__

    def __truediv__(self, other):
        return self._scaled("__truediv__", other, 1 / other) if _is_number(other) else self.value() / _values(other)

    div = __truediv__

    def _is_local(self):
        return all(p.owner is None and type(p.weight) in _PLAIN for p in self.products)

    def _is_bias(self, other):
        """One number for each class, as BART adds them?"""
        fits = type(other) in _PLAIN and other.is_floating_point() and 0 < other.ndim <= self.ndim
        return fits and other.shape[-1] == other.numel() == self.shape[-1] and self.cap is None and self._is_local()

    def __add__(self, other):
        if self._is_bias(other) and not self.root.written:
            biases = (*self.biases, (other.reshape(-1), 1.0))
            return self._then("__add__", other, biases=biases, dtype=torch.promote_types(self.dtype, other.dtype))
        alike = isinstance(other, Logits) and other.shape == self.shape and self.cap is None and other.cap is None
        if not alike or other.written or self.root.written:
            return self.value() + _values(other)
        return self._then(
            "__add__",
            other,
            products=self.products + other.products,
            biases=self.biases + other.biases,
            dtype=torch.promote_types(self.dtype, other.dtype),
        )

    def has_operands(self):
        """Are these logits linear_cross_entropy's?"""
        plain, parts = ([test(p.weight) for p in self.products] for test in (lambda w: type(w) in _PLAIN, _is_in_parts))
        return (all(plain) or all(parts)) and not self.root.written and (self.cap is None or self.cap > 0)

    def operands(self, products):
        """(x, head, bias, softcap) of linear_cross_entropy, from the products with their weights present."""
        by = 1.0 if self.cap is None else self.cap  # c·tanh(z) = c·tanh(c·z/c)
        parts = []
        for p in products:
            _require_present(p.weight)
            parts.append((_times(p.x, p.factor * by), p.weight))
        x, head = parts[0]
        if len(parts) > 1:  # x·Wᵀ + y·Bᵀ = [x y]·[W B]ᵀ
            x = torch.cat([part.to(x.dtype) for part, _ in parts], -1)
            head = torch.cat([weight.to(head.dtype) for _, weight in parts], 1)
        bias = None
        for b, factor in self.biases:
            b = _times(b, factor * by)
            bias = b if bias is None else bias + b
        return x, head, bias, 0.0 if self.cap is None else self.cap


def _is_number(x):
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def _times(x, factor):
    return x if abs(factor - 1) < 1e-12 else x * factor


def _leading_index(index, ndim):
    """The index of hidden states that picks the same rows as this index of logits; None where it looks at single logits."""
    parts = list(index) if isinstance(index, tuple) else [index]
    taken = 0
    for part in parts:
        if part is None or isinstance(part, (list, Deferred)):
            return None
        if isinstance(part, torch.Tensor) and part.dtype in (torch.bool, torch.uint8):
            taken += part.ndim
        elif part is not Ellipsis:
            taken += 1
    if any(part is Ellipsis for part in parts) and taken < ndim:
        if parts[-1] is not Ellipsis and not _is_whole(parts[-1]):
            return None
    elif taken >= ndim and not _is_whole(parts[-1]):
        return None
    return tuple(parts)


def _first_classes(index, ndim):
    """n of the index [.., :n], which leaves out classes that pad a vocabulary; None where the index is another."""
    if not isinstance(index, tuple) or not (index[0] is Ellipsis or len(index) == ndim):
        return None
    *rest, last = index
    whole = all(part is Ellipsis or _is_whole(part) for part in rest)
    first = whole and isinstance(last, slice) and last.start in (None, 0) and last.step in (None, 1)
    return last.stop if first and isinstance(last.stop, int) and last.stop > 0 else None


def _is_whole(part):
    return isinstance(part, slice) and part.start is None and part.stop is None and part.step is None


def _is_in_parts(x):
    return type(x).__name__ == "DTensor"


def _of_logits(weight):
    """Where the logits of a head in parts are."""
    from torch.distributed.tensor import Shard

    return tuple(Shard(-1) if p.is_shard(0) else p for p in weight.placements)


def _require_present(weight):
    if _is_in_parts(weight):
        return
    if not torch.compiler.is_compiling() and weight.numel() and weight.untyped_storage().nbytes() == 0:
        raise RuntimeError(
            "patch: the weight of the head was freed before the loss was computed, as FSDP does with groups of modules; shard the "
            "head by itself, together with the model, or with reshard_after_forward=False"
        )


def linear_of(owner, input):
    """The product of a layer whose weight is in parts (_sharded_heads.py)."""
    return _linear(input, owner.weight, owner.bias, owner) if isinstance(input, Deferred) else owner.product(input)


def _linear(input, weight, bias=None, owner=None):
    if isinstance(input, Logits):  # the second half of an adapter
        input = HiddenStates(input.value())
    x = input.tensor if isinstance(input, HiddenStates) else input
    weight, bias = _values(weight), _values(bias)
    alike = (type(x) in _PLAIN and type(weight) in _PLAIN) or (_is_in_parts(x) and _is_in_parts(weight))
    kind = x.device.type
    if torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
    elif owner is not None:
        dtype = owner.product_dtype(x)
    else:
        dtype = x.dtype if x.dtype == weight.dtype else None
    fits = isinstance(input, HiddenStates) and (owner is not None or (alike and weight.ndim == 2))
    if not fits or not x.is_floating_point() or dtype is None:
        return F.linear(x, weight, bias) if owner is None else owner.product(x)
    biases = () if bias is None else ((bias, 1.0),)
    return Logits((Product(x, weight, owner=owner),), biases, None, dtype, None, None)


def _cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    fits = isinstance(input, Logits) and input.ndim == 2 and size_average is None and reduce is None
    fits = fits and not isinstance(target, Deferred) and not isinstance(weight, Deferred) and input.has_operands()
    if not fits or (weight is not None and weight.requires_grad):
        return F.cross_entropy(
            _values(input), _values(target), _values(weight), size_average, ignore_index, reduce, reduction, label_smoothing
        )
    from . import torch as losses

    def compute(products):
        x, head, bias, softcap = input.operands(products)
        return losses._wide_linear_cross_entropy(
            x,
            head,
            target,
            bias,
            weight,
            softcap=softcap,
            ignore_index=ignore_index,
            reduction=reduction,
            label_smoothing=label_smoothing,
            **dict.fromkeys(getattr(here, "rounds", ()), True),
        )

    if not torch.compiler.is_compiling():
        here.fused = getattr(here, "fused", 0) + 1
    loss = _with_weights(input.products, compute)
    return loss if loss.dtype == input.dtype else loss.to(input.dtype)
