# SPDX-License-Identifier: MIT
"""Every function that is compared: one line each. Needs neither PyTorch nor Ebb.

    row(family, inputs, expression)

The family gives the sizes (sizes.py), inputs are arrays of numbers (numbers.py) and the expression is evaluated with Ebb's
functions and with PyTorch's, where it is written the same; `torch=` is PyTorch's way to write it where it is not. The
gradient is to all inputs of floats, except `fixed` ones and in rows with grad=False.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    name: str
    family: str
    inputs: str
    expression: str
    torch: str
    grad: bool
    same: str  # dtypes whose results can be compared: not where they are random, have free signs or (bf16) many ties


ROWS = []


def row(family, inputs, expression, torch=None, *, name=None, grad=True, same="f32 bf16"):
    name = name or re.match(r"(?:loss\.)?([a-z_0-9]+)", expression)[1]
    ROWS.append(Row(name, family, inputs, expression, torch or expression, grad, same))


def each(family, inputs, expression, names, **options):
    for name in names.split():
        row(family, inputs, expression.replace("F", name, 1), name=name, **options)


# ---- elementwise
each("any_shape", "x=normal(S)", "F(x)", "neg square abs exp exp2 expm1 sin cos atan sinh cosh tanh asinh erf erfc "
     "relu relu6 hardsigmoid hardswish selu silu mish softsign tanhshrink sigmoid gelu elu celu leaky_relu "
     "hardtanh hardshrink softshrink softplus rrelu frac sinc deg2rad rad2deg nan_to_num erfcx")
each("any_shape", "x=normal(S)", "F(x)", "sign floor ceil round trunc isnan isinf isfinite logical_not signbit sgn isposinf "
     "isneginf", grad=False)
each("any_shape", "x=positive(S)", "F(x)", "reciprocal log log2 log10 log1p sqrt rsqrt lgamma digamma")
each("any_shape", "x=unit(S)", "F(x)", "asin acos atanh erfinv tan")
each("any_shape", "x=normal(S), y=normal(S)", "F(x, y)", "add sub mul maximum minimum atan2 hypot logaddexp logaddexp2 "
     "copysign fmax fmin")
each("any_shape", "x=normal(S), y=positive(S)", "F(x, y)", "div xlogy")
each("any_shape", "x=normal(S), y=positive(S)", "F(x, y)", "remainder fmod", same="f32")
each("any_shape", "x=normal(S), y=normal(S)", "F(x, y)", "eq ne lt le gt ge logical_and logical_or logical_xor isclose "
     "heaviside floor_divide", grad=False)
each("any_shape", "x=whole(100, S), y=whole(100, last)", "F(x, y)", "bitwise_and bitwise_or bitwise_xor", grad=False)
each("any_shape", "x=whole(100, S), y=whole(5, last)", "F(x, y)", "bitwise_left_shift bitwise_right_shift", grad=False)
each("any_shape", "x=normal(S), y=normal(S), z=positive(S)", "F(x, y, z)", "lerp addcmul addcdiv")
row("any_shape", "x=whole(100, S)", "bitwise_not(x)", grad=False)
row("any_shape", "x=positive(S)", "acosh(x + 1.0)")
row("any_shape", "x=positive(S)", "cbrt(x)", "pow(x, 1 / 3)")
row("any_shape", "x=positive(S)", "polygamma(1, x)")
row("any_shape", "x=positive(S), y=normal(last)", "pow(x, y)")
row("any_shape", "x=normal(S)", "x ** 3", name="pow, a number")
row("any_shape", "x=positive(S)", "float_power(x, 1.7)")
row("any_shape", "x=normal(S), m=normal(last), a=normal(S)", "fma(x, m, a)", "x * m + a")
row("any_shape", "x=normal(S), m=normal(last), a=normal(last)", "affine(x, m, a)", "x * m + a")
row("any_shape", "x=normal(S), k=whole(5, S)", "ldexp(x, k)")
row("any_shape", "x=normal(S), y=normal(S)", "rsub(x, y)")
row("any_shape", "x=normal(S)", "cast(x, f64)", "x.to(float64)")
row("any_shape", "c=mask(S), x=normal(S), y=normal(last)", "where(c, x, y)")
row("any_shape", "x=normal(S), c=mask(S)", "masked_fill(x, c, 3.0)")
row("any_shape", "x=normal(S)", "clamp(x, -0.5, 1.0)")
row("any_shape", "x=normal(S)", "clamp_min(x, 0.1)")
row("any_shape", "x=normal(S)", "clamp_max(x, 0.1)")
row("any_shape", "x=normal(S)", "threshold(x, 0.1, 5.0)")
row("any_shape", "x=share(S)", "logit(x)")
row("any_shape", "x=normal(S)", "log_sigmoid(x)", "logsigmoid(x)")
row("any_shape", "x=normal(S)", "gelu(x, approximate='tanh')", name="gelu, tanh")
row("any_shape", "x=normal(S), w=positive(1)", "prelu(x, w)")
row("any_shape", "x=normal(S)", "dropout(x, 0.3)", same="")
row("any_shape", "x=normal(S)", "alpha_dropout(x, 0.3, True)", same="")
row("any_shape", "x=whole(1000, S), t=whole(1000, 50)", "isin(x, t)", grad=False)
row("any_shape", "x=normal(S)", "zeros_like(x)", grad=False)
row("any_shape", "x=normal(S)", "randn_like(x)", grad=False, same="")
row("any_shape", "x=normal(S)", "rand_like(x)", grad=False, same="")
row("any_shape", "x=share(S)", "bernoulli(x)", grad=False, same="")

# ---- reductions and scans
each("along_axis", "x=normal(S)", "F(x, axis)", "softmax log_softmax softmin cumsum logcumsumexp sum mean logsumexp "
     "var std")
each("along_axis", "x=positive(S)", "F(x, axis)", "prod cumprod")
each("along_axis", "x=normal(S)", "F(x)", "sum mean norm var", grad=True)
each("along_axis", "x=normal(S)", "F(x, axis)", "argmax argmin count_nonzero", grad=False)
row("along_axis", "x=distinct(S)", "argsort(x, axis)", grad=False, same="f32")
each("along_axis", "x=normal(S)", "F(x > 1, axis)", "any all", grad=False)
each("along_axis", "x=distinct(S)", "F(x, axis)[0]", "sort cummax cummin", same="f32")
row("along_axis", "x=normal(S)", "max(x, axis)", "amax(x, axis)")
row("along_axis", "x=normal(S)", "min(x, axis)", "amin(x, axis)")
row("along_axis", "x=normal(S)", "max(x)", name="max of all")
row("along_axis", "x=normal(S)", "aminmax(x, dim=axis)")
row("along_axis", "x=normal(S)", "var_mean(x, axis)")
row("along_axis", "x=normal(S)", "std_mean(x, axis)")
row("along_axis", "x=normal(S)", "norm(x, 3.0, axis)")
row("along_axis", "x=distinct(S)", "topk(x, k, axis)[0]", name="topk", same="f32")
row("along_axis", "x=distinct(S)", "kthvalue(x, k, axis)[0]", name="kthvalue", same="f32")
row("along_axis", "x=distinct(S)", "median(x, axis)", "median(x, axis).values", same="f32")
row("along_axis", "x=distinct(S)", "quantile(x, 0.3, axis)")
row("along_axis", "x=normal(S)", "nansum(x, axis)")
row("along_axis", "x=normal(S)", "nanmean(x, axis)")
row("along_axis", "x=normal(S)", "diff(x, 1, axis)")
row("along_axis", "x=normal(S)", "trapezoid(x, dim=axis)")
row("along_axis", "x=normal(S)", "cumulative_trapezoid(x, dim=axis)")
row("along_axis", "x=normal(S)", "normalize(x, 2.0, axis)")
row("along_axis", "x=normal(S), y=normal(S)", "cosine_similarity(x, y, axis)")
row("along_axis", "x=normal(S), y=normal(S)", "vecdot(x, y, dim=axis)")
row("along_axis", "x=normal(S)", "gumbel_softmax(x, dim=axis)", same="")
row("along_axis", "x=normal(S, twice=axis)", "glu(x, axis)")
for _name, _gate in (("swiglu", "silu"), ("geglu", "gelu"), ("reglu", "relu")):
    row("along_axis", "x=normal(S, twice=axis)", f"{_name}(x, axis)", f"chunk(x, 2, axis)[0] * {_gate}(chunk(x, 2, axis)[1])")

# ---- arrangement
row("along_axis", "x=normal(S)", "contiguous(transpose(x, 0, axis))", "transpose(x, 0, axis).contiguous()", name="transpose")
row("along_axis", "x=normal(kept)", "contiguous(expand(x, S))", "x.expand(S).contiguous()", name="expand")
row("along_axis", "x=normal(S)", "narrow(x, axis, 0, some)")
row("along_axis", "x=normal(S)", "select(x, axis, 0)")
row("along_axis", "x=normal(S), y=normal(S)", "cat([x, y], axis)")
row("along_axis", "x=normal(S), y=normal(S)", "stack([x, y], axis)")
each("any_shape", "x=normal(S), y=normal(S)", "F([x, y])", "hstack vstack dstack column_stack")
row("along_axis", "x=normal(S)", "chunk(x, 3, axis)[0] * 2", name="chunk")
row("along_axis", "x=normal(S)", "split(x, some, axis)[0] * 2", name="split")
row("along_axis", "x=normal(S)", "flip(x, [axis])")
row("along_axis", "x=normal(S)", "roll(x, 3, axis)")
row("along_axis", "x=normal(S)", "repeat_interleave(x, 3, dim=axis)")
row("any_shape", "x=normal(S)", "tile(x, (2, 1))")
row("any_shape", "x=normal(S)", "rot90(x)")
row("any_shape", "x=normal(last, 3)", "repeat(x, (2, 3))", "x.repeat(2, 3)")
row("any_shape", "x=normal(last, 5)", "sum_to(x, (1, 5))", "x.sum_to_size(1, 5)")
row("any_shape", "x=normal(last), y=normal(7)", "cartesian_prod(x, y)")
row("along_axis", "x=normal(S), s=normal(kept)", "slice_scatter(x, s, axis, 0, 1)")
row("along_axis", "x=normal(S), s=normal(S[:axis] + S[axis + 1:])", "select_scatter(x, s, axis, 0)")
row("any_shape", "x=normal(S)", "tril(x)")
row("any_shape", "x=normal(S)", "triu(x, 1)")
row("any_shape", "x=normal(last)", "diag(x)[0] * 2", name="diag")
row("any_shape", "x=normal(S)", "diagonal(x) * 2", name="diagonal")
row("any_shape", "x=normal(last, 5)", "diag_embed(x)")
row("any_shape", "x=normal(5, last), y=normal(3, 7)", "block_diag(x, y)")
row("any_shape", "x=normal(S)", "pad(x, (3, 5))", name="pad")
row("image", "x=normal(N, C, H, W)", "pad(x, (2, 1, 1, 2), 'reflect')", name="pad, reflect")
row("image", "x=normal(N, C, H, W)", "pad(x, (2, 1, 1, 2), 'replicate')", name="pad, replicate")
row("image", "x=normal(N, C, H, W)", "pad(x, (2, 1, 1, 2), 'circular')", name="pad, circular")
row("image", "x=normal(N, C4, H, W)", "pixel_shuffle(x, 2)")
row("image", "x=normal(N, C, 2 * H, 2 * W)", "pixel_unshuffle(x, 2)")
row("image", "x=normal(N, C4, H, W)", "channel_shuffle(x, 4)")
row("counts", "", "arange(n) + 1", name="arange", grad=False)
row("counts", "", "eye(few, 50)", name="eye", grad=False)
row("counts", "", "linspace(0.0, 1.0, n)", grad=False)
row("counts", "", "randn((n,))", grad=False, same="")
row("counts", "", "rand((n,))", grad=False, same="")
row("counts", "", "randint(0, v, (n,))", grad=False, same="")
row("counts", "", "randperm(n)", grad=False, same="")

# ---- indices
row("along_axis", "x=normal(S), i=whole(n, few)", "gather(x, axis, i)")
row("along_axis", "x=normal(S), i=whole(n, few)", "take_along(x, i, axis)", "take_along_dim(x, i, axis)")
row("along_axis", "x=normal(S), i=order(n, few, axis), s=normal(few)", "scatter(x, axis, i, s)")
row("along_axis", "x=normal(S), i=whole(n, few), s=normal(few)", "scatter_add(x, axis, i, s)")
for _reduce in ("sum", "mean", "amax", "amin"):
    row("along_axis", "x=normal(S), i=whole(n, few), s=normal(few)", f"scatter_reduce(x, axis, i, s, '{_reduce}')",
        name=f"scatter_reduce, {_reduce}")
row("along_axis", "x=normal(S), i=whole(n, some)", "index_select(x, axis, i)")
row("along_axis", "x=normal(S), i=whole(n, 5), s=normal(S, size=5, axis=axis)", "index_add(x, axis, i, s)")
row("along_axis", "x=normal(S), i=order(n, min(n, 5), 0)", "index_fill(x, axis, i, 2.0)")
row("along_axis", "x=normal(S), i=order(n, min(n, 5), 0), s=normal(S, size=min(n, 5), axis=axis)", "index_copy(x, axis, i, s)")
row("lookup", "x=normal(v, w), i=whole(v, n), s=normal(n, w)", "index_put(x, [i], s, True)", "index_put(x, [i], s, True)")
row("lookup", "x=normal(v, w), i=whole(v, n)", "x[i]", name="x[indices]")
row("lookup", "x=normal(v, w), i=whole(v, n)", "embedding(x, i)", "embedding(i, x)")
row("lookup", "x=normal(v, w), i=whole(v, b, 7)", "embedding_bag(i, x)")
row("lookup", "x=normal(v, w), i=whole(v, n7), o=starts(b, 7)", "embedding_bag(i, x, o, mode='sum')", name="embedding_bag, offsets")
row("lookup", "x=normal(v, w), i=whole(v * w, n)", "take(x, i)")
row("counts", "i=whole(classes, many)", "one_hot(i, classes)", grad=False)
row("counts", "x=normal(n)", "x[x > 0]", name="x[mask]")
row("any_shape", "x=normal(S), c=mask(S)", "masked_select(x, c)")
row("any_shape", "x=normal(S), c=mask(S), s=normal(S)", "masked_scatter(x, c, s)")
row("any_shape", "c=mask(S)", "nonzero(c)", grad=False)
row("counts", "x=whole(v, n)", "unique(x)", grad=False)
row("counts", "i=whole(v, n)", "bincount(i)", grad=False)
row("counts", "i=whole(v, n), w=fixed(n)", "bincount(i, w)", name="bincount, weights", grad=False)
row("counts", "x=fixed(n)", "histc(x, classes, -2.0, 2.0)", grad=False)
row("counts", "a=ascending(v), x=fixed(n)", "searchsorted(a, x)", grad=False)
row("counts", "a=ascending(v), x=fixed(n)", "bucketize(x, a)", grad=False)
row("counts", "x=positive(many, classes)", "multinomial(x, 1)", grad=False, same="")

# ---- linear algebra
row("product", "a=normal(m, k), b=normal(k, n)", "matmul(a, b)")
row("product", "a=normal(b, m, k), c=normal(b, k, n)", "matmul(a, c)", name="matmul, batches")
row("product", "a=normal(m, k), b=normal(n, k)", "matmul(a, transpose(b, 0, 1))", name="matmul, transposed")
row("product", "a=normal(n, k), x=normal(k)", "matmul(a, x)", name="matrix by vector")
row("product", "a=normal(k, n), x=normal(k)", "matmul(x, a)", name="vector by matrix")
row("product", "x=normal(m, k), w=normal(n, k), b=normal(n)", "linear(x, w, b)")
row("product", "c=normal(n), a=normal(m, k), b=normal(k, n)", "addmm(c, a, b)")
row("product", "c=normal(b, m, n), a=normal(b, m, k), d=normal(b, k, n)", "baddbmm(c, a, d)")
row("product", "c=normal(m), a=normal(m, k), x=normal(k)", "addmv(c, a, x)")
row("product", "c=normal(m, n), x=normal(m), y=normal(n)", "addr(c, x, y)")
row("product", "c=normal(m, n), a=normal(b, m, k), d=normal(b, k, n)", "addbmm(c, a, d)")
row("product", "x=normal(b, m, k), y=normal(b, n, k)", "einsum('bik,bjk->bij', x, y)", name="einsum")
row("product", "x=normal(m, b, k), y=normal(k, b, n)", "tensordot(x, y, dims=([2, 1], [0, 1]))", name="tensordot")
row("product", "x=normal(m, k), y=normal(m, 8), w=normal(5, k, 8)", "bilinear(x, y, w)")
row("product", "x=normal(m), y=normal(n)", "outer(x, y)")
row("product", "x=normal(n, k), y=normal(m, k)", "inner(x, y)")
row("counts", "x=normal(n), y=normal(n)", "dot(x, y)")
row("counts", "x=normal(few), y=normal(7)", "kron(x, y)")
row("counts", "x=normal(few, 3), y=normal(few, 3)", "cross(x, y)", "linalg.cross(x, y)")
row("square", "a=normal(n, n)", "trace(a)")
row("vectors", "x=normal(m, w), y=normal(n, w)", "cdist(x, y)")
row("vectors", "x=normal(m, w), y=normal(n, w)", "cdist(x, y, 1.0)", name="cdist, p = 1")
row("vectors", "x=normal(m, w), y=normal(m, w)", "pairwise_distance(x, y)")
row("vectors", "x=normal(p, w)", "pdist(x)")
row("vectors", "x=normal(q, w)", "cov(x)")
row("vectors", "x=normal(q, w)", "corrcoef(x)")
row("vectors", "x=normal(m, w), y=normal(m, w)", "dist(x, y)")
row("square", "a=definite(b, n)", "cholesky(a)", "linalg.cholesky(a)", name="cholesky")
row("square", "a=definite(b, n), x=normal(b, n, r)", "cholesky_solve(x, cholesky(a))", "cholesky_solve(x, linalg.cholesky(a))", name="cholesky_solve")
row("square", "a=definite(b, n)", "cholesky_inverse(cholesky(a))", "cholesky_inverse(linalg.cholesky(a))", name="cholesky_inverse")
row("square", "a=dominant(b, n), x=normal(b, n, r)", "linalg.solve(a, x)", name="solve")
row("square", "a=dominant(b, n), x=normal(b, n, r)", "linalg.solve_triangular(a, x, upper=True)", name="triangular_solve")
row("square", "a=dominant(b, n)", "linalg.inv(a)", name="inv")
row("square", "a=dominant(b, n)", "linalg.slogdet(a)[1]", name="slogdet")
row("square", "a=small_det(b, n)", "linalg.det(a)", name="det")
row("square", "a=definite(b, n)", "logdet(a)")
row("square", "a=normal(b, h, n)", "linalg.qr(a)", name="qr", same="")
row("square", "a=normal(b, h, n)", "linalg.svd(a, full_matrices=False)", name="svd", same="", grad=False)
row("square", "a=normal(b, h, n)", "linalg.svdvals(a)", name="svdvals")
row("square", "a=definite(b, n)", "linalg.eigh(a)", name="eigh", same="", grad=False)
row("square", "a=definite(b, n)", "linalg.eigvalsh(a)", name="eigvalsh")
row("square", "a=normal(b, h, n)", "linalg.pinv(a)", name="pinv")
row("square", "a=normal(b, h, n), x=normal(b, h, r)", "linalg.lstsq(a, x)[0]", name="lstsq")
row("square", "a=small_det(b, n)", "linalg.matrix_power(a, 5)", name="matrix_power")

# ---- layers
row("along_axis", "x=normal(S), w=normal(S[-1]), b=normal(S[-1])", "layer_norm(x, (S[-1],), w, b)")
row("along_axis", "x=normal(S), w=normal(S[-1])", "rms_norm(x, (S[-1],), w, 1e-5)")
row("channels", "x=normal(N, C, L), w=normal(C), b=normal(C)", "batch_norm(x, None, None, w, b, training=True)[0]",
    "batch_norm(x, None, None, w, b, training=True)", name="batch_norm")
row("channels", "x=normal(N, C, L), w=normal(C), b=normal(C)", "group_norm(x, G, w, b)")
row("channels", "x=normal(N, C, L)", "instance_norm(x)")
row("channels", "x=normal(N, C, L)", "softmax(x, 1)", name="softmax over channels")
row("channels", "x=normal(N, C, L), t=whole(C, N, L)", "cross_entropy(x, t)", name="cross_entropy over channels")
row("channels", "x=normal(N, C, L), w=positive(C)", "prelu(x, w)", name="prelu over channels")
row("image", "x=normal(N, C, H, W)", "local_response_norm(x, 5)")
row("image", "x=normal(N, C, H, W)", "dropout2d(x, 0.3)", same="")
row("signal", "x=normal(N, C, L), w=normal(F, C, K), b=normal(F)", "conv1d(x, w, b, 1, K // 2)", name="conv1d")
row("image", "x=normal(N, C, H, W), w=normal(F, C, K, K), b=normal(F)", "conv2d(x, w, b, 1, K // 2)", name="conv2d")
row("image", "x=normal(N, C, H, W), w=normal(F, C, 3, 3)", "conv2d(x, w, None, 2, 1)", name="conv2d, stride 2")
row("image", "x=normal(N, C, H, W), w=normal(C, 1, 3, 3)", "conv2d(x, w, None, 1, 1, 1, C)", name="conv2d, depthwise")
row("image", "x=normal(N, C, H, W), w=normal(F, C, 3, 3)", "conv2d(x, w, None, 1, 2, 2)", name="conv2d, dilated")
row("signal", "x=normal(L, N, C), w=normal(3, C, F), b=normal(F)", "conv_tbc(x, w, b, 1)")
row("volume", "x=normal(N, C, D, H, W), w=normal(F, C, 3, 3, 3)", "conv3d(x, w, None, 1, 1)", name="conv3d")
row("signal", "x=normal(N, C, L), w=normal(C, F, 3)", "conv_transpose1d(x, w, None, 2)", name="conv_transpose1d")
row("image", "x=normal(N, C, H, W), w=normal(C, F, 3, 3)", "conv_transpose2d(x, w, None, 2, 1)", name="conv_transpose2d")
row("volume", "x=normal(N, C, D, H, W), w=normal(C, F, 2, 2, 2)", "conv_transpose3d(x, w, None, 2)", name="conv_transpose3d")
for _d, _family, _x in ((1, "signal", "N, C, L"), (2, "image", "N, C, H, W"), (3, "volume", "N, C, D, H, W")):
    row(_family, f"x=normal({_x})", f"max_pool{_d}d(x, 2, padding=1)")
    row(_family, f"x=normal({_x})", f"avg_pool{_d}d(x, 2)")
    row(_family, f"x=normal({_x})", f"adaptive_avg_pool{_d}d(x, 3)")
    row(_family, f"x=normal({_x})", f"adaptive_max_pool{_d}d(x, 2)")
    row(_family, f"x=positive({_x})", f"lp_pool{_d}d(x, 2.0, 2)")
row("image", "x=normal(N, C, H, W)", "max_pool2d(x, 3, 2, 1)", name="max_pool2d, 3 by 3")
row("image", "x=normal(N, C, H, W)", "avg_pool2d(x, 3, 1, 1)", name="avg_pool2d, 3 by 3")
row("image", "x=normal(N, C, H, W)", "global_avg_pool(x)", "adaptive_avg_pool2d(x, 1)")
row("image", "x=normal(N, C, H, W)", "global_max_pool(x)", "amax(x, (2, 3), True)")
row("image", "x=normal(N, C, H, W), i=order(4 * H * W, (N, C, H, W), 2)", "max_unpool2d(x, i, 2)")
row("image", "x=normal(N, C, H, W)", "unfold(x, 3, 1, 1, 2)")
row("image", "x=normal(N, C4, H * W)", "fold(x, (2 * H, 2 * W), 2, 1, 0, 2)")
for _mode in ("nearest", "bilinear", "bicubic", "area"):
    _corners = "" if _mode in ("nearest", "area") else ", align_corners=False"
    row("image", "x=normal(N, C, H, W)", f"interpolate(x, (H * 3 // 2, W + 5), mode='{_mode}'{_corners})", name=f"interpolate, {_mode}")
for _mode in ("bilinear", "nearest", "bicubic"):
    row("image", "x=normal(N, C, H, W), g=unit(N, H, W, 2)", f"grid_sample(x, g, mode='{_mode}', align_corners=False)",
        name=f"grid_sample, {_mode}")
row("image", "t=normal(N, 2, 3)", "affine_grid(t, (N, C, H, W), False)")
row("attention", "q=normal(B, H, T, E), k=normal(B, H, U, E), v=normal(B, H, U, E)", "scaled_dot_product_attention(q, k, v)")
row("attention", "q=normal(B, H, T, E), k=normal(B, H, T, E), v=normal(B, H, T, E)", "scaled_dot_product_attention(q, k, v, is_causal=True)",
    name="attention, causal")
row("attention", "q=normal(B, H, T, E), k=normal(B, H, U, E), v=normal(B, H, U, E), c=seen(T, U)",
    "scaled_dot_product_attention(q, k, v, c)", name="attention, masked")
row("attention", "x=normal(T, B, H * E), w=normal(3 * H * E, H * E), o=normal(H * E, H * E)",
    "multi_head_attention_forward(x, x, x, H * E, H, w, None, None, None, False, 0.0, o, None, need_weights=False)[0]",
    name="multi_head_attention")

# ---- losses: what PyTorch does not have is a formula of its operations (bench/peers/formulas.py)
for _inputs, _names in (
    ("x=normal(S), t=fixed(S)", "mse_loss l1_loss smooth_l1_loss huber_loss pinball_loss log_cosh_loss wing_loss"),
    ("x=share(S), t=shares(S)", "binary_cross_entropy"),
    ("x=normal(S), t=shares(S)", "binary_cross_entropy_with_logits"),
    ("x=normal(S), t=bits(S)", "sigmoid_focal_loss"),
    ("x=normal(S), t=signs(S)", "hinge_loss hinge_embedding_loss soft_margin_loss perceptron_loss"),
    ("x=normal(S), y=normal(S), t=signs(S)", "margin_ranking_loss"),
    ("x=normal(S), t=shares(S), v=positive(S)", "gaussian_nll_loss"),
    ("x=normal(S), t=shares(S)", "poisson_nll_loss"),
    ("x=share(S), t=shares(S)", "kl_div generalized_kl"),
    ("x=share(S), t=bits(S)", "focal_loss_on_probabilities"),
    ("c=normal(S), r=normal(S), p=fixed(S), q=fixed(S)", "dpo_loss ipo_loss"),
    ("c=normal(S), r=normal(S)", "simpo_loss cpo_loss"),
):
    each("any_shape", _inputs, "loss.F(" + ", ".join(re.findall(r"(\w)=", _inputs)) + ")", _names)
for _inputs, _names in (
    ("x=normal(S), t=whole(S[1], S[0])", "cross_entropy nll_loss multi_margin_loss softmax_focal_loss dft_loss poly_loss"),
    ("x=normal(S), t=bits(S)", "multilabel_soft_margin_loss"),
    ("x=normal(S), t=fixed(S)", "listnet_loss"),
    ("x=share(S), t=bits(S)", "dice_loss iou_loss tversky_loss"),
    ("x=normal(S), y=normal(S)", "cosine_similarity_loss"),
    ("x=normal(S), y=normal(S), z=normal(S)", "triplet_margin_loss triplet_margin_with_distance_loss"),
    ("x=share(S), t=shares(S)", "kl_divergence tvd_loss jsd_loss"),
    ("x=normal(S), t=whole(S[1], S[0])", "sparsemax_loss"),
    ("x=normal(S), t=bits(S)", "lovasz_hinge"),
):
    each("rows", _inputs, "loss.F(" + ", ".join(re.findall(r"(\w)=", _inputs)) + ")", _names)
row("rows", "x=normal(S)", "loss.router_z_loss(x)")
row("rows", "x=normal(S), y=normal(S), t=signs(S[0])", "loss.cosine_embedding_loss(x, y, t)", same="f32")
each("vectors", "x=normal(q, w), y=normal(q, w)", "loss.F(x, y)", "info_nce siglip_loss nt_xent barlow_twins_loss vicreg_loss")
row("vectors", "x=normal(q, w), t=whole(7, q)", "loss.supcon_loss(x, t)")
each("vectors", "x=normal(q, w), c=normal(50, w), t=whole(50, q)", "loss.F(x, c, t)", "arcface_loss cosface_loss")
row("sequence", "x=normal(T, N, C), t=labels(C, N, u), a=filled(T, N), b=filled(u, N)", "ctc_loss(log_softmax(x, 2), t, a, b)",
    "loss.ctc_loss(x, t, a, b)")
row("lookup", "x=normal(n, w), h=normal(min(v, 5000), w), t=whole(min(v, 5000), n)", "loss.linear_cross_entropy(x, h, t)")


def excused(reason, names):
    return {name: reason for name in names.split()}


# Functions of the package without a row, and why.
NOT_COMPARED = {
    **excused("a view: nothing is computed", "reshape permute flatten squeeze unsqueeze broadcast_to slice unbind tensor_split hsplit "
              "vsplit dsplit movedim moveaxis unflatten ravel expand_as view_as reshape_as broadcast_tensors meshgrid "
              "atleast_1d atleast_2d atleast_3d swapaxes swapdims clone positive"),
    **excused("another name of a function that has a row", "stddev triangular_solve logsigmoid native_channel_shuffle upsample "
              "upsample_bilinear upsample_nearest trapz vdot argwhere absolute arccos arcsin arctan arctan2 arccosh arcsinh "
              "arctanh bmm clip concat concatenate divide expit fix greater greater_equal inverse less less_equal mm multiply mv "
              "negative not_equal subtract take_along_dim true_divide type_as fliplr flipud diagflat dropout1d dropout3d "
              "feature_alpha_dropout max_unpool1d max_unpool3d max_pool1d_with_indices max_pool2d_with_indices "
              "max_pool3d_with_indices adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices "
              "adaptive_max_pool3d_with_indices"),
    **excused("PyTorch has none on a CPU; bench/gpu has the products", "fp8_linear fp8_error_bound"),
    **excused("PyTorch has none; second derivatives of grid_sample are made of it", "weighted_gather"),
    **excused("makes numbers as zeros_like, arange and randn do", "zeros ones full ones_like full_like randint_like empty empty_like "
              "logspace normal tril_indices triu_indices scalar_tensor as_tensor tensor asarray from_numpy from_dlpack"),
    **excused("an answer in Python", "allclose equal is_tensor is_floating_point numel result_type can_cast promote_types "
              "broadcast_shapes dtype"),
    **excused("a transformation of functions", "variable stop_gradient backward vjp jvp jacobian hvp hessian diagonal_hessian "
              "fisher_diagonal gauss_newton_product checkpoint checkpoint_sequential custom_function custom_gradient "
              "check_gradients check_second_gradients numerical_gradient compile grad value_and_grad"),
    **excused("a setting", "default_device set_default_device is_available synchronize eval print_schedule set_graph_bound "
              "manual_seed random_state set_random_state memory_stats reset_peak_memory set_memory_limit release_cached_memory "
              "set_memory_budget memory_budget set_num_threads set_batch_invariant batch_invariant set_tf32 tf32 num_threads get_num_threads set_origins "
              "get_float32_matmul_precision set_float32_matmul_precision"),
    **excused("a loss of inputs that have a meaning together; compared by make bench", "asymmetric_loss multilabel_margin_loss "
              "lovasz_softmax rnnt_loss kto_loss orpo_loss grpo_loss linear_dpo_loss linear_ipo_loss linear_orpo_loss "
              "linear_simpo_loss linear_cpo_loss linear_kto_loss linear_grpo_loss linear_dft_loss linear_kl_loss linear_jsd_loss "
              "load_balancing_loss linear_log_probs linear_sequence_log_probs"),
}
