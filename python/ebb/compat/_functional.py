# SPDX-License-Identifier: MIT
"""Functions of torch.nn.functional that are formulas of others, under its names and with its arguments."""

import math

from .. import _core
from .._formula import as_real, of_operands, rounded_once
from ._methods import registrars

__all__ = []
function, _ = registrars(__all__)


@function
def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """softmax(−x)."""
    return _core.softmax(-(as_real(input) if dtype is None else _core.cast(input, dtype)), -1 if dim is None else dim)


@function
def channel_shuffle(input, groups):
    """[N, C, ...] with its channels dealt out from `groups` piles: the k-th of every pile follow one another."""
    n, channels, *rest = input.shape
    if groups < 1 or channels % groups:
        raise ValueError(f"channel_shuffle: {channels} channels are not divisible by {groups} groups")
    return input.reshape((n, groups, channels // groups, *rest)).transpose(1, 2).reshape(input.shape)


native_channel_shuffle = channel_shuffle
__all__.append("native_channel_shuffle")


@function
@of_operands
def bilinear(input1, input2, weight, bias=None):
    """x1ᵀ·W_o·x2 + b_o for every output o; weight [out, in1, in2]."""
    y = _core.einsum("...i,oij,...j->...o", input1, weight, input2)
    return y if bias is None else y + bias


@function
@rounded_once
def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """x / (k + alpha·m)^beta, where m is the mean of the squares of `size` neighbouring channels."""
    if input.ndim < 3:
        raise ValueError(f"local_response_norm: needs an input [N, C, ...] of three axes or more, got shape {input.shape}")
    n, channels = input.shape[:2]
    squares = _core.square(input).reshape((n, channels, math.prod(input.shape[2:]))).transpose(1, 2)
    squares = _core.pad(squares, (size // 2, (size - 1) // 2))
    means = _core.avg_pool1d(squares, size, 1).transpose(1, 2).reshape(input.shape)
    return input / (means * alpha + k) ** beta


def _lp_pool(name, average, count):
    @rounded_once
    def pool(input, norm_type, kernel_size, stride=None, ceil_mode=False):
        window = (kernel_size,) * count if isinstance(kernel_size, int) else tuple(kernel_size)
        size = math.prod(window)
        window, stride = (window[0], stride) if count == 1 else (window, stride)
        means = average(input**norm_type, window, stride, 0, ceil_mode)
        return _core.sign(means) * _core.relu(_core.abs(means) * size) ** (1.0 / norm_type)

    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = "(Σ x^p)^(1/p) of every window, p = norm_type."
    return function(pool)


lp_pool1d = _lp_pool("lp_pool1d", _core.avg_pool1d, 1)
lp_pool2d = _lp_pool("lp_pool2d", _core.avg_pool2d, 2)
lp_pool3d = _lp_pool("lp_pool3d", _core.avg_pool3d, 3)


@function
def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """The older name of interpolate."""
    return _core.interpolate(input, size, scale_factor, mode, align_corners)


@function
def upsample_nearest(input, size=None, scale_factor=None):
    """interpolate with mode="nearest"."""
    return _core.interpolate(input, size, scale_factor, "nearest")


@function
def upsample_bilinear(input, size=None, scale_factor=None):
    """interpolate with mode="bilinear" and align_corners."""
    return _core.interpolate(input, size, scale_factor, "bilinear", True)


# ---- random ----------------------------------------------------------------------------------------------------------


def _mask_of(shape, p, dtype):
    return _core.cast(_core.rand(shape) >= p, dtype)


def _channels(x, spatial):
    """The shape of one number for each channel: of [N, C, ...], or of [C, ...]."""
    kept = x.ndim - spatial
    return tuple(x.shape[:kept]) + (1,) * spatial


def _drop_channels(name, x, spatial, p, training):
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: p must be in [0, 1], got {p}")
    if not training or p == 0:
        return x
    return x * _mask_of(_channels(x, spatial), p, x.dtype) / (1 - p) if p < 1 else x * 0.0


@function
def dropout1d(input, p=0.5, training=True, inplace=False):
    """dropout of whole channels of [N, C, L] or [C, L]."""
    return _drop_channels("dropout1d", input, 1, p, training)


@function
def dropout3d(input, p=0.5, training=True, inplace=False):
    """dropout of whole channels of [N, C, D, H, W] or [C, D, H, W]."""
    return _drop_channels("dropout3d", input, 3, p, training)


@rounded_once
def _alpha(x, shape, p, training):
    if not training or p == 0:
        return x
    # Dropped elements become −α' = −λ·α of SELU; scale and shift restore mean 0 and variance 1.
    low = -1.7580993408473766
    scale = 1 / math.sqrt((1 - p) * (1 + p * low * low)) if p < 1 else 0.0
    kept = _mask_of(shape, p, x.dtype)
    return (x * kept + low * (1 - kept)) * scale - scale * p * low


@function
def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """dropout for selu: keeps mean 0 and variance 1."""
    return _alpha(input, input.shape, p, training)


@function
def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """alpha_dropout of whole channels of [N, C, ...]."""
    return _alpha(input, tuple(input.shape[:2]) + (1,) * (input.ndim - 2), p, training)


@function
@rounded_once
def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """leaky_relu with slopes drawn between lower and upper while training, their mean else."""
    if not lower <= upper:
        raise ValueError(f"rrelu: lower must not be larger than upper, got {lower} and {upper}")
    if not training:
        return _core.leaky_relu(input, (lower + upper) / 2)
    slopes = _core.cast(_core.rand(input.shape), input.dtype) * (upper - lower) + lower
    return _core.where(input >= 0, input, slopes * input)


# ---- convolutions and pools ------------------------------------------------------------------------------------------


@function
def conv_tbc(input, weight, bias, pad=0):
    """conv1d of [time, batch, channels] with weight [kernel, in, out]."""
    if input.ndim != 3 or weight.ndim != 3 or input.shape[2] != weight.shape[1]:
        raise ValueError(
            "conv_tbc: needs an input [time, batch, in] and a weight [kernel, in, out], "
            f"got shapes {tuple(input.shape)} and {tuple(weight.shape)}"
        )
    taps, channels = weight.shape[0], weight.shape[2]
    times = input.shape[0] + 2 * pad - taps + 1
    if pad < 0 or taps < 1 or times < 1:
        raise ValueError(f"conv_tbc: a kernel of {taps} does not fit into {input.shape[0]} steps with a padding of {pad} at both ends")
    # Channels are innermost already, so the taps beside one another make one product of it.
    padded = _core.pad(input, (0, 0, 0, 0, pad, pad)) if pad else input
    parts, rows = [_core.narrow(padded, 0, k, times) for k in range(taps)], weight.reshape((taps * input.shape[2], channels))
    if bias.dtype.itemsize < 4:  # a term of the product: halves are rounded once
        parts.append(_core.ones((times, input.shape[1], 1), input.dtype))
        rows, bias = _core.cat([rows, bias.reshape((1, channels))], 0), None
    return _core.linear(parts[0] if len(parts) == 1 else _core.cat(parts, 2), rows.mT, bias)


def _max_unpool(name, spatial):
    def unpool(input, indices, kernel_size, stride=None, padding=0, output_size=None):
        def each(sizes):
            return (sizes,) * spatial if isinstance(sizes, int) else tuple(sizes)

        window, pads = each(kernel_size), each(padding)
        steps = window if stride is None else each(stride)
        if input.ndim not in (spatial + 1, spatial + 2) or min(steps) < 1:
            raise ValueError(
                f"{name}: needs [N, C, ...] or [C, ...] with {spatial} axes behind the channels and strides of 1 or more, "
                f"got shape {tuple(input.shape)} and strides {steps}"
            )
        if tuple(indices.shape) != tuple(input.shape):
            raise ValueError(f"{name}: indices of shape {tuple(indices.shape)} for an input of shape {tuple(input.shape)}")
        lead, sizes = tuple(input.shape[:-spatial]), tuple(input.shape[-spatial:])
        if output_size is None:
            output_size = [(n - 1) * s + k - 2 * p for n, s, k, p in zip(sizes, steps, window, pads)]
        output = tuple(output_size)[-spatial:]
        axis, places = len(lead), indices.reshape((*lead, -1))

        def forward(x):
            flat = _core.zeros((*lead, math.prod(output)), x.dtype)
            return _core.scatter(flat, axis, places, x.reshape((*lead, -1))).reshape((*lead, *output))

        # Windows that overlap may name a position twice, with the same element: either gets the cotangent, as in PyTorch.
        def rule(grad, result, inputs):
            return [_core.gather(grad.reshape((*lead, -1)), axis, places).reshape(inputs[0].shape)]

        return _core.custom_function(forward, rule, input)

    unpool.__name__ = unpool.__qualname__ = name
    unpool.__doc__ = "The elements of a max pool back at the positions that it returned, zeros elsewhere."
    return function(unpool)


max_unpool1d = _max_unpool("max_unpool1d", 1)
max_unpool2d = _max_unpool("max_unpool2d", 2)
max_unpool3d = _max_unpool("max_unpool3d", 3)


@function
@rounded_once
def affine_grid(theta, size, align_corners=None):
    """Where grid_sample looks for every pixel of an output of this size: theta [N, 2, 3] applied to its coordinates, or
    theta [N, 3, 4] where the size is (N, C, D, H, W)."""
    axes = len(size) - 2
    if axes not in (2, 3):
        raise ValueError(f"affine_grid: size is (N, C, H, W) or (N, C, D, H, W), got {tuple(size)}")
    needed = (size[0], axes, axes + 1)
    if tuple(theta.shape) != needed:
        raise ValueError(f"affine_grid: theta of shape {tuple(theta.shape)} does not fit, a size of {tuple(size)} needs {needed}")
    return _affine_points(theta, tuple(size), align_corners)


@rounded_once
def _affine_points(theta, size, align_corners):
    axes = len(size) - 2

    def line(axis):
        count = size[2 + axis]
        if count == 1:
            steps = _core.zeros((1,), theta.dtype)
        else:
            steps = _core.cast(_core.arange(count), theta.dtype) * (2.0 / (count - 1)) - 1.0
            steps = steps if align_corners else steps * ((count - 1) / count)
        return steps.reshape((*(count if k == axis else 1 for k in range(axes)), 1))

    def column(k):
        return _core.narrow(theta, 2, k, 1).reshape((size[0], *(1,) * axes, axes))

    points = column(axes)
    for k in range(axes):  # x first. A sweep: as a product with three or four columns it took nine times as long
        points = points + line(axes - 1 - k) * column(k)
    return points


# ---- embeddings and attention ----------------------------------------------------------------------------------------


@rounded_once
def _sums_of_rows(rows, weights, kept, mean):
    """Sums or means over the second axis of [bags, k, width]."""
    if weights is not None:
        rows = rows * weights
    if kept is not None:
        rows = _core.where(kept, rows, 0.0)
    total = rows.sum(1)
    if not mean:
        return total
    count = max(rows.shape[1], 1) if kept is None else _core.maximum(_core.cast(kept, total.dtype).sum(1), 1.0)
    return total / count


@rounded_once
def _sums_of_bags(rows, bag, bags, weights, kept, mean):
    """The same of rows [n, width] whose bags are in a vector."""
    if weights is not None:
        rows = rows * weights
    if kept is not None:
        rows = _core.where(kept, rows, 0.0)
    total = _core.index_add(_core.zeros((bags, rows.shape[1]), rows.dtype), 0, bag, rows)
    if not mean:
        return total
    each = _core.ones((rows.shape[0], 1), rows.dtype) if kept is None else _core.cast(kept, rows.dtype)
    return total / _core.maximum(_core.index_add(_core.zeros((bags, 1), rows.dtype), 0, bag, each), 1.0)


def _bag_of_each(offsets, count):
    """For each of `count` positions how many bags have begun before it: 8 times as fast as a search of 70,000."""
    inside = _core.where(offsets < count, offsets, count)  # bags at the end may be empty
    begun = _core.index_add(_core.zeros((count + 1,), _core.i64), 0, inside, _core.ones(offsets.shape, _core.i64))
    return _core.cumsum(begun.narrow(0, 0, count), 0) - 1


@function
def embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """Sums, means or largest elements of the rows of a table that belong together: a row of input [bags, k], or what
    lies between two offsets of a vector. An empty bag gives zeros."""
    if max_norm is not None or scale_grad_by_freq:
        raise TypeError("embedding_bag: there is no max_norm and no scale_grad_by_freq")
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode is 'sum', 'mean' or 'max', got {mode!r}")
    if per_sample_weights is not None and mode != "sum":
        raise ValueError(f"embedding_bag: per_sample_weights need mode='sum', got {mode!r}")
    if input.ndim != 2 and offsets is None:
        raise ValueError("embedding_bag: a vector of indices needs offsets")
    # Rows are selected in the table's dtype, so that halves are widened for those alone.
    index, width, mean = input.reshape((-1,)), weight.shape[1], mode == "mean"
    rows = _core.index_select(weight, 0, index)
    kept = None if padding_idx is None else index != (padding_idx % weight.shape[0])
    if input.ndim == 2 and mode != "max":
        lines = (input.shape[0], input.shape[1])
        weights = None if per_sample_weights is None else per_sample_weights.reshape((*lines, 1))
        kept = None if kept is None else kept.reshape((*lines, 1))
        return _sums_of_rows(rows.reshape((*lines, width)), weights, kept, mean)
    if input.ndim == 2:
        bags, count = input.shape[0], input.shape[1]
        bag = _core.repeat_interleave(_core.arange(bags), count)
    else:
        bags = offsets.shape[0] - (1 if include_last_offset else 0)
        bag = _bag_of_each(offsets.narrow(0, 0, bags), input.shape[0])
    kept = None if kept is None else kept.reshape((-1, 1))
    if mode == "max":
        if kept is not None:
            rows = _core.where(kept, rows, -math.inf)
        at = _core.broadcast_to(bag.reshape((-1, 1)), rows.shape)
        found = _core.scatter_reduce(_core.full((bags, width), -math.inf, weight.dtype), 0, at, rows, "amax")
        return _core.where(found == -math.inf, 0.0, found)
    if mode == "sum" and per_sample_weights is None and kept is None:  # these sums of halves are in f32
        return _core.index_add(_core.zeros((bags, width), rows.dtype), 0, bag, rows)
    weights = None if per_sample_weights is None else per_sample_weights.reshape((-1, 1))
    return _sums_of_bags(rows, bag, bags, weights, kept, mean)


def _additive(mask, dtype):
    """A mask of scores to add: PyTorch's bool masks are true where a query must not look."""
    if mask is None:
        return None
    if mask.dtype.name == "bool":
        return _core.where(mask, -math.inf, _core.zeros((), dtype))
    return _core.cast(mask, dtype)


@function
def multi_head_attention_forward(
    query,
    key,
    value,
    embed_dim_to_check,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    bias_k,
    bias_v,
    add_zero_attn,
    dropout_p,
    out_proj_weight,
    out_proj_bias,
    training=True,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    use_separate_proj_weight=False,
    q_proj_weight=None,
    k_proj_weight=None,
    v_proj_weight=None,
    static_k=None,
    static_v=None,
    average_attn_weights=True,
    is_causal=False,
):
    """What torch.nn.MultiheadAttention computes: (output, weights), of [time, batch, width] or [time, width]."""
    name = "multi_head_attention_forward"
    width = embed_dim_to_check
    if query.shape[-1] != width or width % num_heads:
        raise ValueError(f"{name}: {num_heads} heads of {width} numbers do not fit a query of shape {query.shape}")
    if static_k is not None or static_v is not None:
        raise TypeError(f"{name}: there is no static_k and no static_v")
    batched = query.ndim == 3
    if not batched:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    times, batch = query.shape[:2]
    if use_separate_proj_weight:
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
    else:
        weights = _core.chunk(in_proj_weight, 3, 0)
    biases = (None,) * 3 if in_proj_bias is None else _core.chunk(in_proj_bias, 3, 0)
    q, k, v = (_core.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))
    further = 0  # keys that are not the caller's; no mask covers them
    if bias_k is not None:
        k = _core.cat([k, _core.broadcast_to(bias_k, (1, batch, width))], 0)
        v = _core.cat([v, _core.broadcast_to(bias_v, (1, batch, width))], 0)
        further += 1

    def heads(x):
        return x.reshape((x.shape[0], batch, num_heads, width // num_heads)).permute((1, 2, 0, 3))

    q, k, v = heads(q), heads(k), heads(v)
    if add_zero_attn:
        nothing = _core.zeros((batch, num_heads, 1, width // num_heads), k.dtype)
        k, v = _core.cat([k, nothing], 2), _core.cat([v, nothing], 2)
        further += 1
    keys = k.shape[2] - further
    if is_causal and attn_mask is None:
        attn_mask = _core.triu(_core.ones((times, keys)), 1) > 0
    mask = _additive(attn_mask, q.dtype)
    if mask is not None and mask.ndim == 3:
        mask = mask.reshape((batch, num_heads, times, keys)) if mask.shape[0] != 1 else mask.unsqueeze(0)
    padding = _additive(key_padding_mask, q.dtype)
    if padding is not None:
        padding = padding.reshape((batch, 1, 1, keys))
        mask = padding if mask is None else mask + padding
    if mask is not None and further:
        mask = _core.pad(mask, (0, further))
    drops = dropout_p if training else 0.0
    if need_weights:
        scores = (q * (1.0 / math.sqrt(q.shape[-1]))) @ k.mT
        attention = _core.softmax(scores if mask is None else scores + mask, -1)
        attention = _core.dropout(attention, drops) if drops > 0 else attention
        found = attention @ v
        attention = attention.mean(1) if average_attn_weights else attention
        attention = attention if batched else attention.squeeze(0)
    else:
        found, attention = _core.scaled_dot_product_attention(q, k, v, mask, dropout=drops), None
    y = _core.linear(found.permute((2, 0, 1, 3)).reshape((times, batch, width)), out_proj_weight, out_proj_bias)
    return (y if batched else y.squeeze(1)), attention


@function
@rounded_once
def cholesky_solve(input, input2, upper=False):
    """X with A·X = B from B and the factor that cholesky gives of A: L·Lᵀ = A, or (upper) Uᵀ·U = A."""
    half = _core.triangular_solve(input2, input, upper=upper, transposed=upper)
    return _core.triangular_solve(input2, half, upper=upper, transposed=not upper)


@function
@rounded_once
def cholesky_inverse(input, upper=False):
    """The inverse of A from the factor that cholesky gives of it."""
    return cholesky_solve(_core.eye(input.shape[-1], dtype=input.dtype), input, upper)
