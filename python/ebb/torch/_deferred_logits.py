# SPDX-License-Identifier: MIT
"""Logits that exist once somebody looks at them: what the head of a patched model returns (_huggingface.py).

The product of hidden states and an LM head stays a pair of tensors while it is scaled, capped by tanh, cast, flattened or
indexed by rows, or while another such product (a LoRA adapter's) is added to it; its cross-entropy is
linear_cross_entropy. Any other use computes what the model's own code would have computed, from the head's product on, so
that programs that look at logits get them.
"""

import torch
from torch.nn import functional as F

from ._deferred import Deferred, Product, count_fused, here, values, with_weights
from ._deferred_log_probs import log_softmax
from ._exchange import PLAIN, autocast_dtype, is_in_parts
from ._losses import wide_linear_cross_entropy

LINEAR = torch._C._nn.linear  # F.linear, unless somebody replaced that (DeepSpeed's ZeRO-3 does)

_LOSSLESS = (torch.float32, torch.float16, torch.bfloat16)


class HiddenStates(Deferred):
    """A tensor on its way into a head: its product with a weight is deferred, anything else sees the tensor."""

    def __init__(self, tensor):
        self.tensor = tensor

    def value(self):
        return self.tensor

    def handler(self, function):
        if function is LINEAR:
            return _linear
        return _dropout if function is F.dropout else None

    @property
    def shape(self):
        return self.tensor.shape

    @property
    def dtype(self):
        return self.tensor.dtype

    def to(self, *args, **kwargs):
        return HiddenStates(self.tensor.to(*args, **kwargs))


class Logits(Deferred):
    """cap·tanh(Σ factor·x·weightᵀ + Σ factor·bias), or the sums alone where there is no cap.

    products are those of the sum, biases pairs (bias, factor). `made` says how the model's code makes it: a method of the
    logits that it comes from, with arguments; the first ones (made is None) come from F.linear.

    What would have been computed when they were made does not depend on when somebody looks: whether there are gradients, and
    autocast's dtype, are those of then; that of a weight which has changed since cannot be computed.
    """

    def __init__(self, products, biases, cap, dtype, made=None, autocast=None):
        self.products, self.biases, self.cap, self.dtype = products, biases, cap, dtype
        self.made, self.autocast = made, autocast
        self.with_gradients = torch.is_grad_enabled() and (made is None or made[0].with_gradients)
        self.written = False  # in place, which the factors do not know of
        self.used = False  # by a loss that was computed without them
        self._versions = None if made is not None or torch.compiler.is_compiling() else _versions(self._factors())
        self._value = None

    @property
    def root(self):
        """The logits of F.linear that these come from. No attribute: one of itself would keep the hidden states of a step alive."""
        return self if self.made is None else self.made[0].root

    def handler(self, function):
        if function is LINEAR:
            return _linear
        if function is F.cross_entropy:
            return _cross_entropy
        if function in (F.log_softmax, torch.log_softmax):
            return log_softmax
        return Logits.tanh if function is torch.tanh else None

    def loss(self, name, target, *others, softcap=0.0, **options):
        weight, token_weight = (*others, None, None)[:2]
        capped_twice = softcap and self.cap is not None
        if name != "cross_entropy" or capped_twice or isinstance(token_weight, Deferred) or not _is_fused(self, target, weight):
            return None
        return _fused_cross_entropy(self, target, weight, token_weight, {"softcap": softcap, **options})

    def mark_written(self):
        self.root.written = True

    def mark_used(self):
        if not torch.compiler.is_compiling():
            self.root.used = True

    def watch_gradient(self):
        if self.root.used:
            raise RuntimeError(
                "patch: the loss was computed without these logits, so they have no gradient; unpatch the model to see it, or ask for "
                "it (retain_grad, register_hook) before the loss is computed, in a forward hook of the head"
            )
        self.root.written = True  # whose losses are computed from their value

    def value(self):
        if self._value is None:
            with torch.set_grad_enabled(self.with_gradients):
                self._value = self._computed()
        return self._value

    def _computed(self):
        if self.made is not None:
            source, name, args, kwargs = self.made
            return getattr(source.value(), name)(*values(args), **kwargs)
        product, bias = self.products[0], self.biases[0][0] if self.biases else None
        if self._versions is not None and self._versions != _versions(self._factors()):
            raise RuntimeError(
                "patch: the logits of a training step are computed when something looks at them, and the head has changed since (by "
                "optimizer.step()?); look at them before that"
            )
        with torch.autocast(self.device.type, self.autocast, enabled=self.autocast is not None):
            if product.owner is not None:
                return product.owner.product(product.x)
            _require_present(product.weight)
            return F.linear(product.x, product.weight, bias)

    def _factors(self):
        return (self.products[0].x, self.products[0].weight, *(b for b, _ in self.biases))

    def _then(self, name, *args, products=None, biases=None, cap=None, dtype=None, **kwargs):
        return Logits(
            self.products if products is None else products,
            self.biases if biases is None else biases,
            self.cap if cap is None else cap,
            self.dtype if dtype is None else dtype,
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
        return self.with_gradients and any(p.x.requires_grad or p.weight.requires_grad for p in self.products)

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
            return self.value().to(*values(args), **kwargs)
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
        return self._then(name, *args, products=tuple(p.changed(x=change(p.x)) for p in self.products), **kwargs)

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
                products=tuple(p.changed(weight=p.weight[:count]) for p in self.products),
                biases=tuple((b[:count], f) for b, f in self.biases),
            )
        if leading is None:
            return self.value()[values(index)]
        return self._rows(lambda x: x[leading], "__getitem__", index)

    def tanh(self):
        return self._then("tanh", cap=1.0) if self.cap is None else self.value().tanh()

    def log_softmax(self, dim=None, *args, **kwargs):
        return log_softmax(self, dim, *args, **kwargs)

    def _scaled(self, name, other, factor):
        if self.cap is not None:
            return self._then(name, other, cap=self.cap * factor)
        return self._then(
            name,
            other,
            products=tuple(p.changed(factor=p.factor * factor) for p in self.products),
            biases=tuple((b, f * factor) for b, f in self.biases),
        )

    def __mul__(self, other):
        return self._scaled("__mul__", other, other) if _is_number(other) else self.value() * values(other)

    __rmul__ = mul = __mul__

    def __truediv__(self, other):
        return self._scaled("__truediv__", other, 1 / other) if _is_number(other) else self.value() / values(other)

    div = __truediv__

    def _is_local(self):
        return all(p.owner is None and type(p.weight) in PLAIN for p in self.products)

    def _is_bias(self, other):
        """One number for each class, as BART adds them?"""
        fits = type(other) in PLAIN and other.is_floating_point() and 0 < other.ndim <= self.ndim
        return fits and other.shape[-1] == other.numel() == self.shape[-1] and self.cap is None and self._is_local()

    def __add__(self, other):
        if self._is_bias(other) and not self.root.written:
            biases = (*self.biases, (other.reshape(-1), 1.0))
            return self._then("__add__", other, biases=biases, dtype=torch.promote_types(self.dtype, other.dtype))
        alike = isinstance(other, Logits) and other.shape == self.shape and self.cap is None and other.cap is None
        if not alike or other.root.written or self.root.written or other.with_gradients != self.with_gradients:
            return self.value() + values(other)
        return self._then(
            "__add__",
            other,
            products=self.products + other.products,
            biases=self.biases + other.biases,
            dtype=torch.promote_types(self.dtype, other.dtype),
        )

    def has_operands(self):
        """Are these logits linear_cross_entropy's?"""
        plain, parts = ([test(p.weight) for p in self.products] for test in (lambda w: type(w) in PLAIN, is_in_parts))
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


def _versions(tensors):
    """How often each was written to in place, where they count that."""
    return [None if x.is_inference() else x._version for x in tensors]


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


def _of_logits(weight):
    """Where the logits of a head in parts are."""
    from torch.distributed.tensor import Shard

    return tuple(Shard(-1) if p.is_shard(0) else p for p in weight.placements)


def _require_present(weight):
    if is_in_parts(weight):
        return
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return
    if weight.numel() and weight.untyped_storage().nbytes() == 0:
        raise RuntimeError(
            "patch: the weight of the head was freed before the loss was computed, as FSDP does with groups of modules; shard the "
            "head by itself, together with the model, or with reshard_after_forward=False"
        )


def _dropout(states, *args, **kwargs):
    return HiddenStates(F.dropout(states.tensor, *args, **kwargs))


def linear_of(owner, input):
    """The product of a layer whose weight is in parts (_sharded_heads.py)."""
    return _linear(input, owner.weight, owner.bias, owner) if isinstance(input, Deferred) else owner.product(input)


def _linear(input, weight, bias=None, owner=None):
    if isinstance(input, Logits):  # the second half of an adapter
        input = HiddenStates(input.value())
    x = input.tensor if isinstance(input, HiddenStates) else input
    weight, bias = values(weight), values(bias)
    alike = (type(x) in PLAIN and type(weight) in PLAIN) or (is_in_parts(x) and is_in_parts(weight))
    autocast = autocast_dtype(x)
    if autocast is not None:
        dtype = autocast
    elif owner is not None:
        dtype = owner.product_dtype(x)
    else:
        dtype = x.dtype if x.dtype == weight.dtype else None
    fits = isinstance(input, HiddenStates) and (owner is not None or (alike and weight.ndim == 2))
    if not fits or not x.is_floating_point() or dtype is None:
        return F.linear(x, weight, bias) if owner is None else owner.product(x)
    biases = () if bias is None else ((bias, 1.0),)
    return Logits((Product(x, weight, owner=owner),), biases, None, dtype, autocast=autocast)


def _cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    if not _is_fused(input, target, weight) or size_average is not None or reduce is not None:
        return F.cross_entropy(
            values(input), values(target), values(weight), size_average, ignore_index, reduce, reduction, label_smoothing
        )
    options = dict(ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing)
    return _fused_cross_entropy(input, target, weight, None, options)


def _is_fused(input, target, weight):
    """Is it linear_cross_entropy's, with gradients for all that may have one?"""
    deferred = isinstance(input, Logits) and not isinstance(target, Deferred) and not isinstance(weight, Deferred)
    return deferred and input.ndim == 2 and input.has_operands() and (weight is None or not weight.requires_grad)


def _fused_cross_entropy(input, target, weight, token_weight, options):
    def compute(products):
        x, head, bias, softcap = input.operands(products)
        more = dict.fromkeys(getattr(here, "rounds", ()), True) | ({"softcap": softcap} if softcap else {})
        return wide_linear_cross_entropy(x, head, target, bias, weight, token_weight, **(options | more))

    count_fused()
    input.mark_used()
    with torch.set_grad_enabled(torch.is_grad_enabled() and input.with_gradients):
        loss = with_weights(input.products, compute)
    # Autocast computes losses of halves in f32.
    return loss if loss.dtype == input.dtype or autocast_dtype(input) is not None else loss.to(input.dtype)
