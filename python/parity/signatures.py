# SPDX-License-Identifier: MIT
"""PyTorch's functions called by PyTorch's own signatures, here and there: the same arguments, in the same order and by the
same names. compare.py holds values and gradients against each other.

A call is (name, positional arguments, keywords); Ebb's function is the one of the same name in ebb or ebb.linalg.
"""

import inspect

import torch
import torch.nn.functional as F

CALLS = []
ONCE_CALLS = set()  # their numbers


def call(name, *args, **kwargs):
    CALLS.append((name, args, kwargs))


def call_once(*args, **kwargs):
    """A call of which PyTorch has no second gradient, though it has one of others of the same function."""
    ONCE_CALLS.add(len(CALLS))
    call(*args, **kwargs)


def real(*shape, low=-2.0, high=2.0):
    generator = torch.Generator().manual_seed(len(CALLS) + 17 * len(shape) + sum(shape))
    return low + (high - low) * torch.rand(shape, dtype=torch.float64, generator=generator)


def whole(below, *shape):
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(len(CALLS)))


class Fixed:
    """A tensor by which PyTorch does not differentiate."""

    def __init__(self, tensor):
        self.tensor = tensor


X, Y, CUBE, IMAGE, LINE = real(3, 4), real(3, 4, low=0.3), real(2, 3, 4), real(2, 4, 6, 6), real(2, 4, 9)
VOLUME = real(2, 2, 4, 5, 3)
INDEX = whole(3, 3, 4)

# ---- reductions
for _name in "sum mean prod logsumexp amax amin".split():
    call(_name, X, 1)
    call(_name, X, dim=0, keepdim=True)
for _name in "sum mean prod cumsum".split():
    call(_name, X, dim=1, dtype=torch.float64)
call("var", X, dim=1, unbiased=False)
call("var", X, dim=(0, 1), correction=0, keepdim=True)
call("std", X, dim=1)
call("norm", X, 3, 1)
call("norm", X, p="fro", dim=1, keepdim=True)
call("argmax", X, dim=1, keepdim=True)
call("any", X > 0, dim=1)
call("all", X > -9, 0)
call("cumprod", X, 1)
call("logcumsumexp", X, dim=1)
call("quantile", X, 0.3, dim=1, keepdim=True, interpolation="lower")

# ---- elementwise
call("add", X, Y, alpha=2)
call("sub", X, other=Y, alpha=0.5)
call("mul", input=X, other=Y)
call("div", X, Y)
call("pow", Y, 2.5)
call("remainder", X, 0.7)
call("fmod", X, 0.7)
call("maximum", X, other=Y)
call("atan2", X, Y)
call("clamp", X, min=-0.5, max=0.7)
call("clip", X, 0.0)
call("lerp", X, Y, 0.3)
call("where", X > 0, X, Y)
call("where", condition=X > 0, input=X, other=Y)
call("round", X, decimals=1)
call("nan_to_num", X, nan=1.0, posinf=2.0)
call("logit", real(3, 4, low=0.1, high=0.9), eps=0.2)
call("masked_fill", X, X > 0, 2.0)
call("isclose", X, Y, rtol=0.5, atol=0.1)

# ---- shapes
call("transpose", CUBE, dim0=0, dim1=2)
call("permute", CUBE, dims=(2, 0, 1))
call("flatten", CUBE, start_dim=1)
call("squeeze", CUBE[:1], dim=0)
call("unsqueeze", X, dim=1)
call("flip", X, dims=(0,))
call("roll", X, shifts=1, dims=0)
call("narrow", X, dim=1, start=1, length=2)
call("cat", [X, Y], dim=1)
call("stack", [X, Y], dim=1)
call("hstack", [X, Y])
call("vstack", [X, Y])
call("diagonal", CUBE, offset=0, dim1=1, dim2=2)
call("tril", X, diagonal=1)
call("repeat_interleave", X, 2, dim=1)
call("kron", X, Y)
call("trace", X)
call("broadcast_to", X, (2, 3, 4))

# ---- indices
call("gather", X, dim=0, index=INDEX)
call("scatter", X, 0, INDEX[:1], Y[:1])
call("scatter_add", X, dim=0, index=INDEX, src=Y)
call("scatter_reduce", X, 0, INDEX, Y, "sum", include_self=False)
call("index_select", X, dim=1, index=INDEX[0])
call("index_add", X, 0, INDEX[0, :3], Y, alpha=2)
call("index_fill", X, 0, INDEX[0, :2], 3.0)
call("index_put", X, [INDEX[0, :3]], Y, accumulate=True)
call("take_along_dim", X, INDEX, dim=0)
call("sort", X, dim=0, descending=True)
call("topk", X, 2, dim=0)
call("cummax", X, dim=1)
call("searchsorted", torch.arange(5.0, dtype=torch.float64), X, right=True)

# ---- linear algebra
call("matmul", X, other=Y.mT)
call("mm", X, Y.mT)
call("bmm", CUBE, CUBE.mT)
call("outer", X[0], Y[0])
call("addmm", X[:, :3], X, Y.mT, beta=0.5, alpha=2)
call("baddbmm", CUBE[:, :, :3], CUBE, CUBE.mT)
call("cdist", X, Y, p=1.0)
call("linalg.norm", X, dim=1)
call("linalg.norm", X, "nuc")
call("linalg.matrix_norm", X, 1)
call("linalg.vector_norm", X, ord=3, dim=1)
call("linalg.solve", real(3, 3) + 5 * torch.eye(3), X)
call("linalg.solve", real(4, 4) + 5 * torch.eye(4), X, left=False)
call("linalg.cholesky", X @ X.mT + torch.eye(3), upper=True)
call("cholesky_solve", Y.mT[:3], torch.linalg.cholesky(X @ X.mT + torch.eye(3)))
call("cholesky_solve", Y.mT[:3], torch.linalg.cholesky(X @ X.mT + torch.eye(3), upper=True), True)
call("cholesky_inverse", torch.linalg.cholesky(X @ X.mT + torch.eye(3)))
call("linalg.slogdet", real(3, 3))
call("linalg.pinv", X)
call("linalg.svdvals", X)
call("linalg.eigvalsh", X @ X.mT)

# ---- torch.nn.functional
call("F.linear", X, real(5, 4), real(5))
call("F.softmax", X, dim=0, dtype=torch.float64)
call("F.log_softmax", X, 1)
call("F.relu", X, False)
call("F.leaky_relu", X, 0.2, inplace=False)
call("F.elu", X, alpha=0.7)
call("F.celu", X, 0.7)
call("F.gelu", X, approximate="tanh")
call("F.softplus", X, 2, 1000)
call("F.hardtanh", X, -0.5, 0.5)
call("F.threshold", X, 0.1, 0.2)
call("F.softshrink", X, 0.3)
call("F.hardshrink", X, 0.3)
call("F.glu", X, dim=1)
for _name in "sigmoid tanh relu6 selu silu mish softsign tanhshrink hardsigmoid hardswish logsigmoid".split():
    call(f"F.{_name}", X)
call("F.prelu", X, real(1))
call("F.normalize", X, p=2.0, dim=0)
call("F.layer_norm", X, (4,), real(4), real(4), 1e-3)
call("F.rms_norm", X, (4,), real(4), eps=1e-3)
call("F.group_norm", IMAGE, num_groups=2, weight=real(4), bias=real(4), eps=1e-3)
call("F.embedding", INDEX, X, padding_idx=1)
call("F.one_hot", INDEX, num_classes=5)
call("F.pad", LINE, (1, 2), mode="circular")
call("F.pad", LINE, (1, 2), "reflect")
call("F.pad", LINE, (1, 2), value=3.0)
call("F.conv1d", LINE, real(6, 2, 3), real(6), stride=2, padding=1, dilation=1, groups=2)
call("F.conv2d", IMAGE, real(3, 4, 3, 3), None, 1, "same")
call("F.conv_transpose1d", LINE, real(4, 3, 3), real(3), 2, 1, 1)
call("F.conv_transpose2d", IMAGE, real(4, 3, 3, 3), padding=1)
call("F.max_pool2d", IMAGE, 2, return_indices=True)
call("F.max_pool2d", IMAGE, 3, stride=2, padding=1)
call("F.max_pool1d", LINE, 2)
call("F.avg_pool2d", IMAGE, 2, divisor_override=3)
call("F.avg_pool2d", IMAGE, 3, 2, 1, False, False)
call("F.avg_pool1d", LINE, 3, 2)
call("F.adaptive_avg_pool2d", IMAGE, (None, 4))
call("F.adaptive_avg_pool1d", LINE, 4)
call("F.adaptive_max_pool2d", IMAGE, 4)
call("F.adaptive_max_pool1d", LINE, 4)
call("F.interpolate", IMAGE, scale_factor=1.5, mode="bilinear", align_corners=False)
call("F.interpolate", IMAGE, size=(9, 4), mode="bicubic", align_corners=True)
call("F.unfold", IMAGE, (2, 3), dilation=1, padding=1, stride=2)
call("F.fold", real(2, 16, 25), (6, 6), 2)
call("F.pixel_shuffle", IMAGE, 2)
call("F.pixel_unshuffle", IMAGE, 2)
call("F.pairwise_distance", X, Y, p=1.0, keepdim=True)
call("F.scaled_dot_product_attention", real(2, 4, 5, 8), real(2, 4, 5, 8), real(2, 4, 5, 8), real(5, 5), 0.0, False)
call("F.scaled_dot_product_attention", real(2, 4, 5, 8), real(2, 2, 5, 8), real(2, 2, 5, 8), is_causal=True, enable_gqa=True)
call("F.cosine_similarity", X, Y, dim=0)
call("F.conv3d", real(2, 2, 3, 4, 4), real(3, 2, 2, 2, 2), None, 1, 1)
call("F.max_pool3d", real(2, 2, 4, 4, 4), 2)
call("F.avg_pool3d", real(2, 2, 4, 4, 4), 2, stride=1)
call("F.mse_loss", X, Y, reduction="sum")
call("F.l1_loss", X, Y)
call("F.huber_loss", X, Y, delta=0.5)
call("F.smooth_l1_loss", X, Y, beta=0.5)
call("F.cross_entropy", X, whole(4, 3), weight=Fixed(real(4, low=0.5)), label_smoothing=0.1)
call("F.nll_loss", X.log_softmax(1), whole(4, 3), ignore_index=2)
call("F.binary_cross_entropy_with_logits", X, real(3, 4, low=0.0, high=1.0), pos_weight=Fixed(real(4, low=0.5)))
call("F.binary_cross_entropy", real(3, 4, low=0.1, high=0.9), real(3, 4, low=0.1, high=0.9))
call("F.kl_div", X.log_softmax(1), Y.softmax(1), reduction="batchmean")
call("F.poisson_nll_loss", X, real(3, 4, low=0.0, high=3.0), log_input=True, full=False)
call("F.gaussian_nll_loss", X, Y, real(3, 4, low=0.2))
call("F.hinge_embedding_loss", X, real(3, 4).sign(), margin=0.5)
call("F.margin_ranking_loss", X, Y, real(3, 4).sign(), margin=0.2)
call("F.soft_margin_loss", X, Fixed(real(3, 4).sign()))
call("F.multi_margin_loss", X, whole(4, 3), margin=0.5)
call("F.multilabel_soft_margin_loss", X, (real(3, 4) > 0).double())
call("F.multilabel_margin_loss", X, torch.tensor([[0, 2, -1, 1], [1, -1, 0, 2], [3, 0, -1, 1]]))
call("F.cosine_embedding_loss", X, Y, real(3).sign(), margin=0.1)
call("F.triplet_margin_loss", X, Y, real(3, 4), margin=0.7, swap=True)

# ---- what came later
for _name, _extra in (("F.mse_loss", (None, None, "sum")), ("F.l1_loss", (None, None, "none")), ("F.huber_loss", ("sum", 0.5))):
    call(_name, X, Y, *_extra)
call("F.smooth_l1_loss", X, Y, None, None, "sum", 0.5)
call("F.cross_entropy", X, whole(4, 3), Fixed(real(4, low=0.5)), None, 2, None, "sum", 0.1)
call("F.nll_loss", X.log_softmax(1), whole(4, 3), Fixed(real(4, low=0.5)), None, 1, None, "sum")
call("F.kl_div", X.log_softmax(1), Y.softmax(1), None, None, "sum", False)
call("F.poisson_nll_loss", X, real(3, 4, low=0.0, high=3.0), True, True, None, 1e-8, None, "sum")
call("F.triplet_margin_loss", X, Y, real(3, 4), 0.7, 2.0, 1e-6, True, None, None, "sum")
call("F.multi_margin_loss", X, whole(4, 3), 2, 0.5, Fixed(real(4, low=0.5)))
call("F.cosine_embedding_loss", X, Y, real(3).sign(), 0.1, None, None, "sum")
call("F.binary_cross_entropy_with_logits", X, real(3, 4, low=0.0, high=1.0), Fixed(real(3, 4, low=0.5)), None, None, "sum")
call("F.mse_loss", X, Y, size_average=False)
call("F.gaussian_nll_loss", CUBE, real(2, 3, 4), real(2, 1, 4, low=0.2))
call("F.gaussian_nll_loss", X, Y, 0.5, True)
call("F.margin_ranking_loss", X, real(1, 4), Fixed(real(3, 1).sign()), 0.2)
call("F.hinge_embedding_loss", X, Fixed(real(3, 1).sign()))
# Its gradient is compared among the losses: PyTorch's is that of what log_softmax gave it.
call("F.ctc_loss", Fixed(real(7, 2, 5).log_softmax(-1)), torch.tensor([[1, 2, 3], [4, 4, 1]]), [7, 7], [3, 2], 0, "sum")
call("F.linear_cross_entropy", X, real(5, 4), whole(5, 3), linear_bias=real(5), ignore_index=1, label_smoothing=0.1)
call("F.linear_cross_entropy", X, real(5, 4), real(3, 5).softmax(1), reduction="sum")
call("F.linear_cross_entropy", X, real(5, 2, 4), whole(5, 3, 2), linear_bias=real(5, 2), weight=Fixed(real(5, low=0.5)))
call("F.linear_cross_entropy", X, real(5, 2, 4), real(3, 5, 2).softmax(1), reduction="none")
call("F.instance_norm", IMAGE, None, None, real(4), real(4), True, 0.1, 1e-3)
call("F.instance_norm", IMAGE, Fixed(real(4)), Fixed(real(4, low=0.2)), real(4), real(4), use_input_stats=False)
call("F.softmin", X, 1)
call("F.channel_shuffle", IMAGE, 2)
call("F.native_channel_shuffle", Fixed(IMAGE), 2)  # PyTorch has no gradient of it
call("F.pdist", X, 1.0)
call("F.pdist", X)
call("F.bilinear", X, CUBE[0], real(5, 4, 4), real(5))
call("F.local_response_norm", IMAGE, 3, 0.1, 0.7, 2.0)
call("F.lp_pool1d", real(2, 4, 9, low=0.2), 3, 2)
call("F.lp_pool2d", real(2, 4, 6, 6, low=0.2), 2.5, 2, stride=1, ceil_mode=True)
call("F.lp_pool3d", real(2, 2, 4, 4, 4, low=0.2), 2, 2)
call("F.conv_tbc", real(7, 2, 3), real(3, 3, 5), real(5), 1)
call("F.conv_transpose3d", real(2, 4, 3, 2, 3), real(4, 3, 2, 3, 2), real(6), (2, 1, 2), 1, (1, 0, 0), 2, (1, 2, 1))
call("F.max_pool3d", real(2, 2, 4, 5, 4), 2, (1, 2, 2), 1, return_indices=True)
call("F.avg_pool3d", real(2, 2, 4, 4, 4), 2, divisor_override=3)
call("F.adaptive_avg_pool3d", real(2, 2, 4, 5, 4), (2, None, 3))
call("F.adaptive_max_pool3d", real(2, 2, 4, 5, 4), (2, 3, 3))
call("F.max_unpool1d", real(2, 4, 3), torch.tensor([0, 3, 4]).expand(2, 4, 3), 2)
call("F.max_unpool2d", real(2, 1, 2, 2), torch.tensor([[0, 3], [8, 15]]).expand(2, 1, 2, 2), 2, stride=2)
call("F.max_unpool3d", real(1, 1, 2, 1, 1), torch.tensor([3, 7]).reshape(1, 1, 2, 1, 1), (1, 2, 2))
call("F.upsample", IMAGE, scale_factor=2, mode="bilinear", align_corners=True)
call("F.upsample_nearest", IMAGE, (9, 4))
call("F.upsample_bilinear", IMAGE, scale_factor=2)
call("F.affine_grid", real(2, 2, 3), (2, 3, 4, 5), True)
call("F.affine_grid", real(2, 2, 3), (2, 3, 4, 5), align_corners=False)
for _padding in ("zeros", "border", "reflection"):
    for _corners in (False, True):
        call("F.grid_sample", IMAGE, real(2, 3, 5, 2, low=-1.3, high=1.3), "bilinear", _padding, _corners)
call("F.grid_sample", IMAGE, Fixed(real(2, 3, 5, 2, low=-1.3, high=1.3)), mode="nearest", align_corners=False)
for _padding in ("zeros", "border", "reflection"):
    for _corners in (False, True):
        call("F.grid_sample", IMAGE, real(2, 3, 5, 2, low=-1.3, high=1.3), "bicubic", _padding, _corners)
        call("F.grid_sample", VOLUME, real(2, 3, 2, 4, 3, low=-1.3, high=1.3), "bilinear", _padding, _corners)
call("F.grid_sample", VOLUME, Fixed(real(2, 3, 2, 4, 3, low=-1.3, high=1.3)), mode="nearest", align_corners=False)
call("F.affine_grid", real(2, 3, 4), (2, 3, 4, 5, 6), False)
for _pooled in ("F.adaptive_max_pool1d", "F.adaptive_max_pool1d_with_indices"):
    call(_pooled, LINE, 4, return_indices=True)
    call(_pooled, LINE, 3, True)
for _pooled in ("F.adaptive_max_pool2d", "F.adaptive_max_pool2d_with_indices"):
    call(_pooled, IMAGE, (4, None), return_indices=True)
    call(_pooled, IMAGE, 3, return_indices=True)
for _pooled in ("F.adaptive_max_pool3d", "F.adaptive_max_pool3d_with_indices"):
    call(_pooled, VOLUME, (2, 3, 2), return_indices=True)
for _mode in ("bilinear", "bicubic"):
    for _size in ((3, 4), (9, 8), (4, 11)):
        call("F.interpolate", IMAGE, _size, mode=_mode, antialias=True)
    call("F.interpolate", IMAGE, scale_factor=(0.5, 1.7), mode=_mode, align_corners=True, antialias=True)
for _mode in ("nearest", "nearest-exact", "area"):
    call("F.interpolate", IMAGE, (4, 9), mode=_mode)
    call("F.interpolate", VOLUME, scale_factor=(0.7, 1.5, 2.0), mode=_mode)
    call("F.interpolate", LINE, 7, mode=_mode)
call("F.interpolate", LINE, 7, mode="linear")
call("F.interpolate", VOLUME, (5, 3, 7), mode="trilinear", align_corners=True)
call("F.embedding_bag", torch.tensor([0, 1, 2, 1, 2]), X, torch.tensor([0, 2, 2]), mode="sum", per_sample_weights=real(5))
call("F.embedding_bag", INDEX[:, :3], X)
call("F.embedding_bag", INDEX[:, :3], X, mode="max")
call("F.embedding_bag", torch.tensor([0, 1, 2, 1, 2]), X, torch.tensor([0, 2, 5]), include_last_offset=True, padding_idx=1)
call("F.rrelu", X, 0.1, 0.4)
call("F.alpha_dropout", X, 0.3, False)
call("F.feature_alpha_dropout", IMAGE, 0.3, False)
call("F.dropout1d", LINE, 0.3, False)
call("F.dropout3d", real(1, 2, 2, 2, 2), 0.3, False)
call("F.dropout", X, 0.3, False)
call("F.dropout2d", IMAGE, 0.3, False)
_heads = (8, 2, real(24, 8), real(24), None, None, False, 0.0, real(8, 8), real(8))
call("F.multi_head_attention_forward", real(5, 2, 8), real(6, 2, 8), real(6, 2, 8), *_heads)
call_once("F.multi_head_attention_forward", *[real(5, 8)] * 3, *_heads, attn_mask=Fixed(real(5, 5)), need_weights=False)
call(
    "F.multi_head_attention_forward",
    *(real(5, 2, 8), real(6, 2, 3), real(6, 2, 4)),
    *(8, 2, None, real(24), real(1, 1, 8), real(1, 1, 8), True, 0.0, real(8, 8), real(8)),
    key_padding_mask=torch.tensor([[False, False, True, False, True, True], [False] * 6]),
    attn_mask=torch.ones(5, 6, dtype=torch.bool).triu(2),
    use_separate_proj_weight=True,
    q_proj_weight=real(8, 8),
    k_proj_weight=real(8, 3),
    v_proj_weight=real(8, 4),
)
call("scatter_reduce", X, 0, INDEX, Y, "prod")
call("scatter_reduce", X, 0, INDEX, Y, "prod", include_self=False)

# ---- formulas of torch's other functions (ebb/compat)
NAN = X.where(X.abs() > 0.5, torch.tensor(float("nan"), dtype=X.dtype))
call("div", X, Y, rounding_mode="floor")
call("div", X, Y, rounding_mode="trunc")
call("div", torch.tensor([7, -7, 6]), torch.tensor([2, 2, -3]), rounding_mode="trunc")
call("tile", X, (2, 1, 2))
call("unbind", CUBE, 1)
call("tensor_split", X, 3, dim=1)
call("tensor_split", LINE, (2, 5), 2)
call("movedim", CUBE, 0, 2)
call("moveaxis", CUBE, (0, 1), (1, 2))
call("unflatten", LINE, 2, (3, -1))
call("ravel", CUBE)
call("fliplr", X)
call("flipud", X)
for _turns in range(4):
    call("rot90", X, _turns)
call("rot90", CUBE, 1, (1, 2))
call("meshgrid", X[0], Y[1], indexing="xy")
call("meshgrid", X[0], Y[1], indexing="ij")
call("cartesian_prod", X[0], Y[1])
for _name in ("atleast_1d", "atleast_2d", "atleast_3d"):
    for _x in (X.sum(), X[0], X, CUBE):
        call(_name, _x)
call("dstack", [X, Y])
call("column_stack", [X[:, 0], Y])
call("block_diag", X, Y[:2], X[0])
for _offset in (-1, 0, 2):
    call("diag_embed", X, _offset)
call("diag_embed", X, 1, 0, 2)
call("fmax", X, Y)
call("fmin", X, Y)
call("fmax", NAN, Y)
call("addcmul", X, Y, X, value=0.5)
call("addcdiv", X, X, Y, value=0.5)
call("heaviside", Fixed(X), Fixed(Y))
call("sinc", X)
call("sinc", X * 1e-4)
call("deg2rad", X)
call("rad2deg", X)
call("float_power", Y, 1.5)
call("isin", INDEX, torch.tensor([1, 5]))
call("isin", INDEX, torch.tensor([1, 5]), invert=True)
call("var_mean", X, dim=1, correction=0)
call("std_mean", X, dim=0, keepdim=True)
call("aminmax", X, dim=1)
call("aminmax", X)
call("count_nonzero", INDEX, dim=0)
call("nansum", NAN, dim=1)
call("nanmean", NAN, dim=1, keepdim=True)
call("kthvalue", X, 2, dim=0)
call("kthvalue", X, 3, 1, True)
call("diff", X)
call("diff", X, 2, 0)
call("trapezoid", X, dx=0.5)
call("trapezoid", X, Y[0])
call("bincount", INDEX.flatten(), minlength=5)
call("bincount", INDEX.flatten(), Fixed(X.flatten()))
call("histc", Fixed(X), 5, -1, 1)
call("histc", Fixed(X), 4)
call("bucketize", Fixed(X), torch.arange(-2.0, 2.0, dtype=torch.float64), right=True)
call("dist", X, Y, 3)
call("cov", X)
call("cov", X, correction=0, fweights=torch.tensor([1, 2, 3, 1]), aweights=Fixed(Y[0]))
call("corrcoef", X)
call("argwhere", INDEX)
call("masked_select", X, X > 0)
call("take", X, INDEX - 2)
call("index_copy", X, 1, torch.tensor([2, 0]), Y[:, :2])
call("select_scatter", X, Y[0], 0, 1)
call("inner", X, Y)
call("tensordot", CUBE, X, dims=2)
call("tensordot", CUBE, X, dims=([1], [0]))
call("vdot", X[0], Y[0])
call("linalg.vecdot", X, Y, dim=0)
call("cross", X[:, :3], Y[:, :3], dim=1)
call("addmv", X[:, 0], X, Y[0], beta=0.5, alpha=2)
call("addr", X, Y[:, 0], Y[0], alpha=2)
call("addbmm", X[:, :3], CUBE, CUBE.mT, beta=0.5)
call("logspace", -1, 2, 7, base=2.0, dtype=torch.float64)
call("tril_indices", 3, 4, 1)
call("triu_indices", 4, 3, -1)
call("broadcast_tensors", X, Y[0])

# PyTorch has no second gradient of these.
ONCE = {
    "F.grid_sample",
    "F.embedding_bag",
    "F.pdist",
    "F.hardsigmoid",
    "F.scaled_dot_product_attention",
    "F.multi_margin_loss",
    "F.multilabel_margin_loss",
}

# Functions of torch.nn.functional that are not called here, and why.
RANDOM = "draws random numbers; the C++ tests hold its distribution"
EXPLAINED = {
    "gumbel_softmax": RANDOM,
    **dict.fromkeys(
        "fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d "
        "fractional_max_pool3d_with_indices".split(),
        "is not there: its windows are drawn by PyTorch's generator",
    ),
    **dict.fromkeys("grouped_mm scaled_mm scaled_addmm scaled_addmm_ scaled_grouped_mm".split(), "is for accelerators"),
    **dict.fromkeys("celu_ elu_ hardtanh_ leaky_relu_ relu_ rrelu_ selu_ threshold_".split(), "writes to its input"),
    **dict.fromkeys(
        "assert_int_or_pair boolean_dispatch handle_torch_function has_torch_function has_torch_function_unary "
        "has_torch_function_variadic".split(),
        "is PyTorch's own machinery",
    ),
    **dict.fromkeys(
        "max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices".split(),
        "is called by return_indices=True",
    ),
    "batch_norm": "returns the running statistics instead of writing to them; compared among the operations",
    "triplet_margin_with_distance_loss": "takes a function; compared with the transforms",
}


def theirs(name):
    """PyTorch's function of a name: "sum", "F.softmax", "linalg.norm"."""
    holder, _, plain = name.rpartition(".")
    return getattr({"": torch, "F": F, "linalg": torch.linalg}[holder], plain)


def not_called():
    """Names of torch.nn.functional that nobody calls and nothing explains."""
    functions = {n for n, f in vars(F).items() if callable(f) and not inspect.isclass(f) and n.islower() and n[0] != "_"}
    called = {name.rpartition(".")[2] for name, *_ in CALLS}
    return sorted(functions - called - set(EXPLAINED))
