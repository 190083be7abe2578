# SPDX-License-Identifier: MIT
"""_options.py for what networks are made of: activations, embeddings, attention, norms, convolutions, pools."""

import math

from .. import _core
from .._formula import of_operands, rounded_once
from ._options import parameters, special


@special("softplus")
def _threshold_is_not_needed(call):
    def softplus(x, beta=1.0, threshold=None):
        return call(x, beta)

    return softplus


@special(
    *("relu", "relu6", "selu", "silu", "mish", "hardswish", "hardsigmoid", "leaky_relu", "elu", "celu", "hardtanh"),
    *("threshold", "dropout", "dropout2d"),
)
def _inplace(call):
    """F.relu(x, True): the flag that follows a function's own arguments there."""
    count = 1 + len(parameters(call)) if type(call).__name__ == "nb_method" else len(parameters(call))

    def pure(*args, **kwargs):
        return call(*args[:count], **kwargs)

    return pure


@special("linear")
def _of_a_vector(call):
    @of_operands
    def of_a_vector(x, weight, bias):
        y = _core.matmul(x, weight)
        return y if bias is None else y + bias

    def linear(x, weight, bias=None):
        return call(x, weight, bias) if weight.ndim != 1 else of_a_vector(x, weight, bias)

    return linear


@special("embedding")
def _index_first(call):
    def embedding(*args, input=None, padding_index=None, **kwargs):
        """Rows of weight. PyTorch's order, (index, weight), and the C++ order, (weight, index), are told apart by dtype."""
        for place, option in ((3, "max_norm"), (5, "scale_grad_by_freq")):
            if kwargs.pop(option, None) or len(args) > place and args[place]:
                raise TypeError(f"embedding: there is no {option}")
        for without_effect in ("norm_type", "sparse"):
            kwargs.pop(without_effect, None)
        named = [input, kwargs.pop("index", None), kwargs.pop("weight", None)]
        given = [_core.asarray(x) for x in [*args[:2], *named] if x is not None]
        if len(given) != 2 or kwargs:
            raise TypeError(f"embedding: takes an index, a table and padding_idx; unknown {sorted(kwargs)}")
        index, table = given if not given[0].dtype.is_floating else given[::-1]
        return call(table, index, args[2] if len(args) > 2 else padding_index)

    return embedding


@special("gumbel_softmax")
def _eps_is_not_needed(call):
    def gumbel_softmax(logits, tau=1.0, hard=False, eps=None, axis=-1):
        return call(logits, tau, hard, axis=axis)

    return gumbel_softmax


@special("scaled_dot_product_attention")
def _attention(call):
    def attention(q, k, v, mask=None, dropout=0.0, causal=False, scale=None, *, enable_gqa=False, documents=None):
        # Heads of queries may share those of keys and values in any case: enable_gqa is PyTorch's name for it.
        return call(q, k, v, mask, causal=causal, dropout=dropout, scale=scale, documents=documents)

    return attention


@special("instance_norm")
def _running_statistics(call):
    def instance_norm(
        x,
        running_mean=None,
        running_var=None,
        weight=None,
        bias=None,
        use_input_stats=True,
        momentum=0.1,
        eps=1e-5,
    ):
        if not use_input_stats:
            if running_mean is None or running_var is None:
                raise ValueError("instance_norm: without use_input_stats it needs running_mean and running_var")
            return _core.batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)[0]
        y = call(x, weight, bias, eps)
        if running_mean is None and running_var is None:
            return y
        # As batch_norm: what PyTorch writes into its arguments is returned.
        axes = tuple(range(2, x.ndim))
        mean = None if running_mean is None else moved(running_mean, x, _core.mean, axes, momentum)
        return y, mean, None if running_var is None else moved(running_var, x, _core.var, axes, momentum)

    @rounded_once
    def moved(running, x, statistic, axes, momentum):
        return running * (1 - momentum) + _core.mean(statistic(x, axes), 0) * momentum

    return instance_norm


@special("max_pool1d", "max_pool2d", "max_pool3d")
def _return_indices(call):
    def pooled(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        chosen = with_indices if return_indices else call
        return chosen(x, alone(kernel_size), _stride(stride), padding, alone(dilation), ceil_mode)

    with_indices = getattr(_core, call.__name__ + "_with_indices")
    alone = _first if call.__name__ == "max_pool1d" else _as_it_is
    return pooled


def _as_it_is(sizes):
    return sizes


def _stride(given):
    """() is None there, 0 is not."""
    return given if isinstance(given, int) or given else None


def _first(sizes):
    """A size that PyTorch also takes as a tuple of one."""
    return sizes[0] if isinstance(sizes, (tuple, list)) and len(sizes) == 1 else sizes


@special("avg_pool1d")
def _one_size(call):
    def pooled(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
        return call(x, _first(kernel_size), _first(_stride(stride)), _first(padding), ceil_mode, count_include_pad)

    return pooled


@special("avg_pool2d", "avg_pool3d")
def _divisor(call):
    axes = 2 if call.__name__ == "avg_pool2d" else 3

    def each(sizes):
        sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
        return sizes * axes if len(sizes) == 1 else sizes

    def pooled(
        x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
    ):
        stride = _stride(stride)
        if divisor_override == 0:
            raise ValueError(f"{call.__name__}: divisor_override must not be 0")
        if divisor_override is None:
            return call(x, kernel_size, stride, _first(padding), ceil_mode, count_include_pad)
        window, step, pads = each(kernel_size), each(kernel_size if stride is None else stride), each(padding)
        around = []
        for n, k, s, p in zip(x.shape[-axes:], window, step, pads):
            count = (n + 2 * p - k + (s - 1 if ceil_mode else 0)) // s + 1
            if ceil_mode and (count - 1) * s >= n + p:  # the last window must begin inside
                count -= 1
            around = [p, max(p, (count - 1) * s + k - n - p), *around]
        return divided(_core.pad(x, tuple(around)), window, step, divisor_override)

    @rounded_once
    def divided(x, window, step, divisor):
        return call(x, window, step) * math.prod(window) / divisor

    return pooled


@special("conv3d")
def _padding_by_name(call):
    def conv3d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        if padding == "same" and (stride != 1 if isinstance(stride, int) else any(s != 1 for s in stride)):
            raise ValueError(f"conv3d: padding='same' needs a stride of 1, got {stride}")
        if padding == "same":
            wide = (dilation,) * 3 if isinstance(dilation, int) else dilation
            around = [each for k, d in zip(weight.shape[:1:-1], wide[::-1]) for each in _halves(d * (k - 1))]
            x, padding = _core.pad(x, tuple(around)), 0
        return call(x, weight, bias, stride, 0 if padding == "valid" else padding, dilation, groups)

    return conv3d


def _halves(total):
    return total // 2, total - total // 2


@special(
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d_with_indices",
)
def _sizes_that_stay(call):
    with_indices = call if call.__name__.endswith("_indices") else getattr(_core, call.__name__ + "_with_indices", None)

    def pooled(x, output_size, return_indices=False):
        if return_indices and with_indices is None:
            raise TypeError(f"{call.__name__}: means have no indices")
        if isinstance(output_size, (tuple, list)):
            count = len(output_size)
            output_size = tuple(x.shape[k - count] if s is None else s for k, s in enumerate(output_size))
            if count == 1 and call.__name__.endswith("1d"):
                output_size = output_size[0]
        return with_indices(x, output_size) if return_indices else call(x, output_size)

    return pooled


@special("pad")
def _circular(call):
    def padded(x, pad, mode="constant", value=None):
        if mode != "circular":
            return call(x, pad, mode, 0.0 if value is None else value)
        for k in range(len(pad) // 2):
            axis, (before, after) = x.ndim - 1 - k, pad[2 * k : 2 * k + 2]
            x = call(x, (0, 0) * k + (min(before, 0), min(after, 0)))  # what is cropped is not wrapped around
            n = x.shape[axis]
            if before > n or after > n:
                raise ValueError(f"pad: circular by {before} and {after} wraps around axis {axis} of shape {x.shape} twice")
            parts = [x]
            if before > 0:
                parts.insert(0, x.narrow(axis, n - before, before))
            if after > 0:
                parts.append(x.narrow(axis, 0, after))
            x = _core.cat(parts, axis)
        return x

    return padded
