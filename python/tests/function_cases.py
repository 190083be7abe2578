# SPDX-License-Identifier: MIT
"""Every function of the package with arguments that make sense to it: the table that test_function_walk.py goes through.

A line is case(name, arguments...): a spec stands for a tensor, whatever else is in the call is passed as it is. `.but` says
where a function promises less than others. A function without a line, and without a reason in ELSEWHERE, is an error.
"""

import math

import ebb
from function_specs import Case, Distinct, Given, Matrix, Real, Sign, Sorted, Truth, Whole

CASES = []


def case(name, *args, **kwargs):
    CASES.append(Case(name, args, kwargs))
    return CASES[-1]


def cases(names, *args, **kwargs):
    return [case(name, *args, **kwargs) for name in names.split()]


X, ROW, POSITIVE, UNIT, CUBE = Real(), Real("n"), Real(low=0.2, high=3.0), Real(low=-0.9, high=0.9), Real("2mn")
LINE, IMAGE, VOLUME = Real("249"), Real("2466"), Real("22454")
MASK, SQUARE = Truth("mn"), Matrix("44")

# ---- elementwise, of one tensor
cases("neg square abs exp exp2 expm1 sin cos atan sinh cosh tanh asinh erf erfc absolute arctan arcsinh negative erfcx", X)
cases("positive sgn deg2rad rad2deg sinc clone softsign tanhshrink sigmoid expit log_sigmoid logsigmoid silu mish", X)
cases("relu relu6 hardsigmoid hardswish selu hardshrink softshrink contiguous", Real(low=-4.0, high=4.0))
cases("reciprocal log log2 log10 log1p sqrt rsqrt cbrt lgamma digamma", POSITIVE)
cases("asin acos atanh arcsin arccos arctanh erfinv", UNIT)
cases("acosh arccosh", Real(low=1.1, high=3.0))
case("tan", Real(low=-1.2, high=1.2))
case("polygamma", 1, POSITIVE)
for _made in cases("sign floor ceil round trunc fix signbit isposinf isneginf isnan isinf isfinite logical_not", X):
    _made.but(gradient=False, nan="ignored")
case("frac", X)
case("round", X, decimals=1).but(gradient=False)
case("logit", Real(low=0.1, high=0.9))
case("nan_to_num", X, nan=2.0).but(nan="ignored")
case("float_power", POSITIVE, 1.5).but(roundings=0)
case("clamp", X, -0.5, 1.0)
case("clip", X, max=0.3)
case("clamp_min", X, -0.3)
case("clamp_max", X, 0.3)
case("leaky_relu", X, 0.2)
case("prelu", Real("mn"), Real("n", 0.1, 0.5))
case("hardtanh", X, -0.7, 1.1)
case("threshold", X, 0.1, 5.0)
case("elu", X, 1.5)
case("celu", X, 1.5)
case("gelu", X)
case("gelu", X, approximate="tanh")
case("softplus", X, 2.0)
case("rrelu", X, 0.1, 0.4)
case("rrelu", X, 0.1, 0.4, True).but(random=True)
cases("glu swiglu geglu reglu", Real("m4"))
cases("softmax log_softmax softmin", X, 1)
case("cast", X, "f64").but(roundings=0)
case("type_as", X, Real("2"))
case("is_floating_point", X).but(gradient=False, nan="ignored")
case("is_tensor", X).but(gradient=False, nan="ignored")
case("numel", X).but(gradient=False, nan="ignored")

# ---- elementwise, of several
cases("add sub subtract mul multiply maximum minimum fmax fmin atan2 arctan2 hypot logaddexp logaddexp2", X, ROW)
cases("div divide true_divide remainder fmod xlogy", Real("mn"), Real("n", 0.3, 2.0))
cases("pow", Real("mn", 0.3, 2.0), ROW)
for _made in cases("eq ne lt le gt ge not_equal less less_equal greater greater_equal", X, ROW):
    _made.but(gradient=False, nan="ignored")
for _made in cases("logical_and logical_or logical_xor", X, ROW):
    _made.but(gradient=False, nan="ignored")
for _made in cases("fmax fmin heaviside", X, 0.5):
    _made.but(nan="ignored")
for _made in CASES:
    if _made.name in ("fmax", "fmin"):
        _made.but(nan="ignored")
case("heaviside", X, ROW)
case("copysign", X, ROW)
case("floor_divide", X, Real("n", 0.3, 2.0)).but(gradient=False)
case("div", X, Real("n", 0.3, 2.0), rounding_mode="trunc").but(gradient=False)
case("div", X, Real("n", 0.3, 2.0), rounding_mode="floor").but(gradient=False)
case("add", X, ROW, alpha=0.3)
case("sub", X, ROW, alpha=0.3)
case("rsub", X, ROW, alpha=0.3)
case("fma", X, ROW, X)
case("affine", X, ROW, X)
case("lerp", X, X, X)
case("lerp", X, X, 0.3)
case("addcmul", X, X, ROW, value=0.7)
case("addcdiv", X, X, Real("n", 0.3, 2.0), value=0.7)
case("ldexp", X, Whole("n", 4, -3))
case("ldexp", X, 3)
case("where", MASK, X, ROW)
case("masked_fill", X, MASK, 3.0)
case("isclose", X, X, 0.5).but(gradient=False, nan="ignored")
case("allclose", X, X, 0.5).but(gradient=False, nan="ignored")
case("equal", X, X).but(gradient=False, nan="ignored")
case("isin", X, Real("k")).but(gradient=False, nan="ignored")
cases("bitwise_and bitwise_or bitwise_xor", Whole("mn", 100), Whole("n", 100))
cases("bitwise_left_shift bitwise_right_shift", Whole("mn", 100), Whole("n", 5))
case("bitwise_not", Whole("mn", 100))

# ---- reductions
cases("sum mean prod logsumexp amax amin max min median nansum nanmean", X, 1)
cases("sum mean prod max min median", X)
cases("var std stddev", Real("m4"), 1)
cases("var_mean std_mean", Real("m4"), 1)
case("norm", X, 3.0, 1)
case("norm", X)
case("norm", X, "nuc")
case("aminmax", X, dim=1)
cases("any all", MASK, 1)
for _made in cases("argmax argmin argsort", X, 1):
    _made.but(gradient=False, nan="ignored")
case("count_nonzero", X, 1).but(gradient=False, nan="ignored")
cases("cumsum logcumsumexp cummax cummin", X, 1)
case("cumprod", POSITIVE, 1)
for _q in ("linear", "lower", "midpoint"):
    case("quantile", X, 0.3, 1, interpolation=_q)
case("kthvalue", X, 2, 1).but(nan="ignored")
case("diff", X, 2)
case("diff", X, 1, 1, Real("m1"), Real("m2"))
case("trapezoid", X, Sorted("n"))
case("trapz", X)
case("cumulative_trapezoid", X, dx=0.3)
case("histc", X, 7, -1.5, 1.5).but(gradient=False, nan="ignored")
case("bincount", Whole("k", 4)).but(gradient=False)
case("bincount", Whole("k", 4), Real("k", 0.1, 1.0)).but(roundings=0)
case("bucketize", X, Sorted("k")).but(gradient=False, nan="ignored")
case("searchsorted", Sorted("k"), X, right=True).but(gradient=False, nan="ignored")
case("dist", X, ROW, 3)
case("cov", X)
case("cov", X, fweights=Whole("n", 4, 1), aweights=Real("n", 0.2, 1.0))
case("corrcoef", X)
case("unique", Whole("mn", 5))
case("unique", Whole("mn", 2), return_inverse=True, return_counts=True, dim=0)
case("nonzero", MASK)
case("argwhere", MASK)

# ---- shapes
case("reshape", CUBE, (2, -1))
case("view_as", Real("26"), Real("34"))
case("reshape_as", Real("26"), Real("34"))
cases("flatten ravel", CUBE)
case("squeeze", Real("m1n"), 1)
case("unsqueeze", X, 1)
case("permute", CUBE, (2, 0, 1))
cases("transpose swapaxes swapdims", X, 0, 1)
cases("t fliplr flipud", X)
case("expand", X, (3, -1, -1))
case("expand_as", ROW, X)
case("broadcast_to", Real("4"), (5, 4))
case("sum_to", Real("34"), (1, 4))
case("narrow", X, 1, 1, 2)
case("slice", X, 1, 0, step=2)
case("select", X, 1, 2)
case("split", X, 3, 1)
case("chunk", X, 2, 1)
case("tensor_split", X, 3, 1)
cases("hsplit", X, 2)
case("vsplit", Real("4n"), 2)
case("dsplit", Real("mn4"), 2)
case("unbind", X, 1)
cases("cat concat concatenate", [Real("mn"), Real("2n")], 0)
case("stack", [X, X], 1)
cases("hstack vstack dstack column_stack", [X, X])
for _mode in ("constant", "reflect", "replicate", "circular"):
    case("pad", Real("2m4"), (1, 2), _mode)
case("flip", X, 1)
case("rot90", X, 3)
case("roll", X, 2, 1)
case("repeat", X, (2, 3))
case("tile", X, (2, 2))
case("repeat_interleave", X, 2, 1)
case("tril", X)
case("triu", X, 1)
case("diag", ROW)
case("diagflat", X, 1)
case("diag_embed", X, 1)
case("diagonal", CUBE, 0, 1, 2)
cases("movedim moveaxis", CUBE, 0, 2)
case("unflatten", X, 1, (2, -1))
case("broadcast_tensors", X, ROW)
case("meshgrid", ROW, Real("k"))
case("cartesian_prod", ROW, Real("k"))
cases("atleast_1d atleast_2d atleast_3d", X)
case("block_diag", X, Real("2k"))
case("kron", Real("23"), X)

# ---- indices
case("gather", X, 1, Whole("m3", 4))
cases("take_along take_along_dim", X, Whole("m3", 4), 1)
case("weighted_gather", Real("m34"), Whole("m52", 4, -1), Real("m52"))
case("take", X, Whole("k", 4, -4))
case("scatter", X, 1, Distinct("m3", 4), Real("m3"))
case("scatter", X, 1, Distinct("m3", 4), Real("m3"), reduce="add")
case("scatter_add", X, 1, Whole("mk", 4), Real("mk"))
for _reduce in ("sum", "mean", "amax", "prod"):
    case("scatter_reduce", POSITIVE, 1, Whole("mk", 4), Real("mk", 0.2, 2.0), _reduce)
case("index_select", X, 1, Whole("k", 4))
case("index_add", X, 1, Whole("3", 4), Real("m3"))
case("index_add", X, 1, Whole("3", 4), Real("m3"), alpha=0.3)
case("index_copy", X, 1, Distinct("3", 4), Real("m3"))
case("index_fill", X, 1, Whole("2", 4), 3.0)
case("index_put", Real("3n"), [Distinct("2", 3)], Real("2n"))
case("index_put", Real("3n"), [Whole("k", 3)], Real("kn"), True)
case("masked_select", X, MASK).but(nan="ignored")
case("masked_scatter", Real("34"), Truth("34"), Real("26"))
case("slice_scatter", X, Real("m2"), 1, 0, 4, 2)
case("select_scatter", X, Real("m"), 1, 2)
case("embedding", Whole("2k", 4), Real("4n"))
case("one_hot", Whole("mn", 5), 5)
case("sort", X, 1, True)
case("topk", Real("m4"), 2, 1)
case("embedding_bag", Whole("mk", 4), Real("4n"))
case("embedding_bag", Whole("6", 4), Real("4n"), Given([0, 2, 2]), mode="sum")
case("embedding_bag", Whole("mk", 4), Real("4n"), mode="max")

# ---- linear algebra
cases("matmul", CUBE, Real("n3"))
case("mm", X, Real("n3"))
case("bmm", CUBE, Real("2n3"))
case("mv", X, ROW)
cases("dot vdot inner", ROW, ROW)
case("outer", Real("m"), ROW)
case("einsum", "bij,bjk->bik", CUBE, Real("2n3"))
case("tensordot", CUBE, Real("mn2"), 2)
case("vecdot", X, X)
case("cross", Real("m3"), Real("m3"))
case("addmm", Real("m3"), X, Real("n3"), beta=0.7, alpha=0.3)
case("addmv", Real("m"), X, ROW, beta=0.7, alpha=0.3)
case("addr", X, Real("m"), ROW, beta=0.7, alpha=0.3)
case("addbmm", Real("m3"), CUBE, Real("2n3"), beta=0.7, alpha=0.3)
case("baddbmm", Real("2m3"), CUBE, Real("2n3"), beta=0.7, alpha=0.3)
case("linear", CUBE, Real("3n"))
case("linear", CUBE, Real("3n"), Real("3")).but(roundings=None)  # the product, and the sum with the bias
case("linear", CUBE, ROW, Real(""))
case("bilinear", X, Real("m5"), Real("245"), Real("2"))
for _p in (1.0, 1.5, 2.0, float("inf")):
    case("cdist", X, Real("kn"), _p)
    case("pdist", X, _p)
case("cdist", CUBE, Real("3n"))
case("pairwise_distance", X, X)
case("cosine_similarity", X, X)
case("trace", X)
cases("inv inverse det logdet slogdet pinv", SQUARE)
# Symmetric matrices: changing one element alone would break the symmetry.
_SYMMETRIC = Matrix("44", positive=True)
for _name in ("cholesky", "eigh", "linalg.eigh", "eigvalsh", "linalg.eigvalsh", "linalg.cholesky"):
    case(_name, _SYMMETRIC).symmetric()
case("triangular_solve", SQUARE, Real("4n"), upper=True)
case("cholesky_solve", Real("4n"), SQUARE)
case("cholesky_solve", Real("24n"), SQUARE, True)
cases("cholesky_inverse", SQUARE)
case("solve", SQUARE, Real("4n"))
case("lstsq", Matrix("43"), Real("42"))
case("qr", Matrix("43"))
case("svd", Matrix("43"))

# ---- networks
case("layer_norm", Real("mk"), (5,), Real("k"), Real("k"))
case("rms_norm", Real("mk"), (5,), Real("k"), 1e-5)
case("group_norm", Real("245"), 2, Real("4"), Real("4"))
case("batch_norm", Real("634"), None, None, Real("3"), Real("3"), True)
case("instance_norm", Real("235"))
case("instance_norm", Real("235"), Real("3"), Real("3", 0.2, 2.0))
case("local_response_norm", IMAGE, 3, 0.1, 0.7, 2.0)
case("normalize", X)
case("conv1d", LINE, Real("623"), Real("6"), 2, 1, 1, 2)
case("conv2d", IMAGE, Real("3433"), Real("3"), 1, "same")
case("conv3d", Real("22344"), Real("32222"), None, 1, "same")
case("conv_tbc", Real("723"), Real("335"), Real("5"), 1)
case("conv_transpose1d", LINE, Real("433"), Real("3"), 2, 1, 1)
case("conv_transpose2d", IMAGE, Real("4333"), None, 1, 1)
case("conv_transpose3d", Real("22323"), Real("22222"), None, 2)
for _d, _x in ((1, LINE), (2, IMAGE), (3, VOLUME)):
    case(f"max_pool{_d}d", _x, 2, 1)
    case(f"max_pool{_d}d_with_indices", _x, 2)
    case(f"avg_pool{_d}d", _x, 2, 1)
    case(f"lp_pool{_d}d", Real(_x.shape, 0.2, 2.0), 3, 2)
    case(f"adaptive_avg_pool{_d}d", _x, 3)
    case(f"adaptive_max_pool{_d}d", _x, 3)
    case(f"adaptive_max_pool{_d}d_with_indices", _x, 3)
    case(f"dropout{_d}d", _x, 0.4).but(random=True, nan="ignored")
case("avg_pool2d", IMAGE, 2, divisor_override=3)
case("max_unpool1d", Real("223"), Distinct("223", 6), 2)
case("max_unpool2d", Real("122"), Given([[[3, 1], [0, 2]]]), 2)  # all of a plane's positions are different
case("max_unpool3d", Real("1122"), Given([[[[3, 1], [0, 2]]]]), (1, 2, 2))
case("global_avg_pool", IMAGE)
case("global_max_pool", IMAGE)
for _mode in ("nearest", "nearest-exact", "area", "bilinear", "bicubic"):
    case("interpolate", IMAGE, scale_factor=2, mode=_mode)
    case("interpolate", IMAGE, (9, 4), mode=_mode)
case("interpolate", IMAGE, (9, 4), mode="bicubic", antialias=True)
case("interpolate", LINE, 7, mode="linear", align_corners=True)
case("interpolate", VOLUME, (5, 3, 7), mode="trilinear")
case("upsample", IMAGE, scale_factor=2, mode="bilinear", align_corners=True)
case("upsample_nearest", IMAGE, (9, 4))
case("upsample_bilinear", IMAGE, scale_factor=2)
case("affine_grid", Real("223"), (2, 3, 4, 5), False)
case("affine_grid", Real("234"), (2, 1, 3, 4, 2), True)
_GRID = Real("2352", -1.3, 1.3)
for _mode in ("bilinear", "nearest", "bicubic"):
    for _padding in ("zeros", "border", "reflection"):
        case("grid_sample", IMAGE, _GRID, _mode, _padding, False)
case("grid_sample", VOLUME, Real("23243", -1.3, 1.3), "bilinear", "zeros", True)
case("unfold", IMAGE, 2, 1, 1, 2)
case("fold", Real(["2", "8", "12"]), (4, 5), 2)
case("pixel_shuffle", IMAGE, 2)
case("pixel_unshuffle", IMAGE, 2)
cases("channel_shuffle native_channel_shuffle", IMAGE, 2)
for _name in ("dropout", "alpha_dropout", "feature_alpha_dropout"):
    case(_name, IMAGE, 0.4, True).but(random=True, nan="ignored")
case("gumbel_softmax", X).but(random=True)
_QUERY = Real(["2", "5", "8"])
# Steps of their own, each of which rounds halves.
case("scaled_dot_product_attention", _QUERY, _QUERY, _QUERY, is_causal=True).but(roundings=None)
_HEADS = (8, 2, Real(["24", "8"]), Real(["24"]), None, None, False, 0.0, Real("88"), Real("8"))
case("multi_head_attention_forward", Real("528"), Real("628"), Real("628"), *_HEADS).but(roundings=None)

# ---- made from numbers, and at random
case("zeros", (2, 3))
case("ones", (2, 3))
case("full", (2, 3), 1.5)
case("empty", (2, 3))
case("eye", 3, 4)
case("arange", 2, 9, 3)
case("linspace", 0, 1, 7)
case("logspace", 0, 1, 7)
cases("zeros_like ones_like empty_like", X)
case("full_like", X, 2.5)
case("tril_indices", 3, 4, 1)
case("triu_indices", 3, 4)
case("tensor", [[1, 2], [3, 4]])
case("asarray", [[1, 2], [3, 4]])
case("as_tensor", [[1, 2], [3, 4]])
case("scalar_tensor", 2.5)
for _name in ("rand", "randn"):
    case(_name, (2, 3)).but(random=True)
for _name in ("rand_like", "randn_like"):
    case(_name, X).but(random=True)
case("randint", 0, 5, (2, 3)).but(random=True)
case("randint_like", X, 0, 5).but(random=True)
case("randperm", 7).but(random=True)
case("bernoulli", Real("mn", 0.1, 0.9)).but(random=True)
case("normal", X, Real("mn", 0.2, 1.0)).but(random=True)
case("multinomial", Real("mn", 0.2, 1.0), 2).but(random=True, gradient=False)

for _made in CASES:  # powers, means and whether there are fractions
    if _made.name in ("pow", "is_floating_point") or "mean" in _made.args:
        _made.but(integers=None)

# The destination decides the dtype, not the source or the weights.
for _made in CASES:
    if _made.name in (
        "view_as reshape_as expand_as scatter scatter_add scatter_reduce index_add index_copy index_put slice_scatter "
        "select_scatter layer_norm rms_norm group_norm batch_norm instance_norm"
    ).split():
        _made.but(mixed=False)
    if _made.name in ("type_as", "broadcast_tensors", "meshgrid", "multi_head_attention_forward"):
        _made.but(mixed=None)

# Where elements are chosen, covered or left out, a NaN may be among those that are not seen.
for _made in CASES:
    if _made.name in (
        "where masked_fill nansum nanmean tril triu take index_copy index_fill index_put masked_scatter slice_scatter "
        "select_scatter trace grid_sample triangular_solve zeros_like ones_like empty_like full_like"
    ).split():
        _made.but(nan="ignored")

# ---- torch.linalg
cases("linalg.det linalg.inv linalg.slogdet svdvals linalg.svdvals linalg.pinv linalg.matrix_transpose", SQUARE)
case("linalg.matrix_rank", SQUARE).but(gradient=False)
case("linalg.cholesky", _SYMMETRIC, upper=True).symmetric()
case("linalg.solve", SQUARE, Real("4n"))
case("linalg.solve", SQUARE, Real("24"), left=False)
case("linalg.solve_triangular", SQUARE, Real("4n"), upper=False)
case("linalg.lstsq", Matrix("43"), Real("42"))
case("linalg.qr", Matrix("43"))
case("linalg.qr", Matrix("43"), "r")
case("linalg.svd", Matrix("43"), full_matrices=False)
case("linalg.pinv", Matrix("43"), atol=0.01)
case("linalg.vector_norm", X, 3, 1)
for _order in ("fro", "nuc", 2, -2, 1, math.inf):
    case("linalg.matrix_norm", X, _order)
case("linalg.norm", X)
case("linalg.norm", X, "nuc")
case("linalg.matrix_power", Real("44", -0.5, 0.5), 3)
case("linalg.matrix_power", SQUARE, -2)
case("linalg.cross", Real("m3"), Real("m3"))
case("linalg.diagonal", CUBE)
case("linalg.trace", X).but(nan="ignored")
case("linalg.multi_dot", [Real("23"), Real("34"), Real("42")])
case("linalg.matmul", CUBE, Real("n3"))
case("linalg.outer", Real("m"), ROW)
case("linalg.tensordot", CUBE, Real("mn2"), axes=2)
case("linalg.vecdot", X, X)

for _made in CASES:  # eliminations spread infinities as their rounding errors have it
    if _made.name.rpartition(".")[2] in ("cholesky", "solve", "triangular_solve", "cholesky_solve", "cholesky_inverse"):
        _made.but(nan="undefined")

# ---- torch.nn.functional, where it has a function of its own
_STATISTICS = (Real("3"), Real("3", 0.2, 2.0))
case("nn.functional.batch_norm", Real("634"), *_STATISTICS, Real("3"), Real("3"), True).but(mixed=False)
case("nn.functional.instance_norm", Real("235"), *_STATISTICS).but(mixed=False)

# ---- losses
UNIT_INTERVAL, LOGS, SIGNS = Real("kn", 0.05, 0.95), Real("kn", -3.0, -0.1), Sign("kn")
LOGITS, CLASSES, VECTOR, LOG_VECTOR = Real("kn"), Whole("k", 4), Real("k"), Real("k", -3.0, -0.1)
cases("mse_loss l1_loss smooth_l1_loss huber_loss pinball_loss log_cosh_loss wing_loss listnet_loss", LOGITS, LOGITS)
case("mse_loss", LOGITS, LOGITS, weight=Real("kn", 0.2, 1.0))
case("nll_loss", LOGS, CLASSES, Real("n", 0.2, 1.0)).but(nan="ignored", mixed=False)
case("cross_entropy", LOGITS, CLASSES, Real("n", 0.2, 1.0), label_smoothing=0.1).but(mixed=False)
case("cross_entropy", LOGITS, UNIT_INTERVAL, reduction="none")
cases("softmax_focal_loss poly_loss sparsemax_loss multi_margin_loss", LOGITS, CLASSES)
case("dft_loss", LOGITS, CLASSES).but(gradient=False)  # of a weight that is held constant, not of the value
case("binary_cross_entropy", UNIT_INTERVAL, UNIT_INTERVAL)
case("binary_cross_entropy_with_logits", LOGITS, UNIT_INTERVAL, pos_weight=Real("n", 0.2, 1.0))
cases("multilabel_soft_margin_loss sigmoid_focal_loss asymmetric_loss", LOGITS, UNIT_INTERVAL)
case("focal_loss_on_probabilities", UNIT_INTERVAL, UNIT_INTERVAL)
cases("perceptron_loss hinge_loss hinge_embedding_loss soft_margin_loss", LOGITS, SIGNS)
case("margin_ranking_loss", VECTOR, VECTOR, Sign("k"))
case("multilabel_margin_loss", LOGITS, Given([[1, 0, -1, 2]] * 5))
cases("triplet_margin_loss triplet_margin_with_distance_loss", LOGITS, LOGITS, LOGITS)
case("cosine_embedding_loss", LOGITS, LOGITS, Sign("k"))
case("cosine_similarity_loss", LOGITS, LOGITS)
case("kl_div", LOGS, UNIT_INTERVAL)
cases("kl_divergence tvd_loss generalized_kl", UNIT_INTERVAL, UNIT_INTERVAL)
case("jsd_loss", LOGS, LOGS)
case("poisson_nll_loss", LOGITS, Real("kn", 0.1, 3.0))
case("gaussian_nll_loss", LOGITS, LOGITS, Real("kn", 0.2, 2.0))
case("gaussian_nll_loss", LOGITS, LOGITS, 0.5)
cases("dice_loss iou_loss tversky_loss", UNIT_INTERVAL, UNIT_INTERVAL)
case("lovasz_hinge", LOGITS, Whole("kn", 2))
case("lovasz_softmax", UNIT_INTERVAL, CLASSES)
cases("info_nce siglip_loss nt_xent barlow_twins_loss vicreg_loss", LOGITS, LOGITS)
cases("load_balancing_loss router_z_loss", LOGITS)
case("supcon_loss", LOGITS, Whole("k", 2))
cases("arcface_loss cosface_loss", LOGITS, Real("3n"), Whole("k", 3))
case("ctc_loss", Real("724", -3.0, -0.2), Whole("23", 4, 1), [7, 6], [3, 2])
case("rnnt_loss", Real("2434", -3.0, -0.2), Whole("22", 4, 1), Whole("2", 5, 4), Whole("2", 3, 2))
cases("dpo_loss ipo_loss", *[LOG_VECTOR] * 4)
case("kto_loss", LOG_VECTOR, LOG_VECTOR, Truth("k"))
cases("orpo_loss simpo_loss cpo_loss", LOG_VECTOR, LOG_VECTOR)
case("grpo_loss", LOGS, VECTOR, old=LOGS, reference=LOGS)
_TOKENS, _HEAD, _ANSWERS = Real("433"), Real("53"), Whole("43", 5)
case("linear_cross_entropy", X, Real("kn"), Whole("m", 5), Real("k"))
cases("linear_dpo_loss linear_ipo_loss", _TOKENS, _HEAD, _ANSWERS, Real("4", -3.0, -0.1))
cases("linear_orpo_loss linear_simpo_loss linear_cpo_loss", _TOKENS, _HEAD, _ANSWERS)
for _each in cases("linear_log_probs linear_sequence_log_probs", _TOKENS, _HEAD, _ANSWERS):
    _each.but(roundings=None)  # f32, whatever the dtype of x: see its page
case("linear_kto_loss", _TOKENS, _HEAD, _ANSWERS, Real("4", -3.0, -0.1), Truth("4"))
_OLD = Real("43", -3.0, -0.1)
cases("linear_kl_loss linear_jsd_loss", _TOKENS, _HEAD, _TOKENS, _HEAD)
case("linear_dft_loss", _TOKENS, _HEAD, _ANSWERS).but(gradient=False)
case("linear_grpo_loss", _TOKENS, _HEAD, _ANSWERS, Real("4"), old=_OLD, reference=_OLD)

# Functions that are called elsewhere, and why.
ELSEWHERE = {
    **{
        name: "a gradient rule: every gradient of the walk calls one, and the C++ walk of the op table calls all"
        for name in dir(ebb)
        if name.endswith("_backward")
    },
    **dict.fromkeys(
        "backward grad value_and_grad vjp jvp hvp jacobian hessian diagonal_hessian fisher_diagonal gauss_newton_product "
        "checkpoint checkpoint_sequential custom_function custom_gradient compile check_gradients check_second_gradients "
        "numerical_gradient".split(),
        "takes a function: test_autograd.py, test_compile.py",
    ),
    **dict.fromkeys("stop_gradient variable eval print_schedule".split(), "about history and evaluation: test_autograd.py"),
    **dict.fromkeys("fp8_linear fp8_error_bound".split(), "has few digits on purpose: test_fp8.py"),
    **dict.fromkeys("from_dlpack from_numpy".split(), "takes arrays: test_exchange.py"),
    **dict.fromkeys("broadcast_shapes can_cast promote_types result_type dtype".split(), "gets no tensors' numbers"),
    **dict.fromkeys(
        "batch_invariant default_device get_num_threads is_available manual_seed memory_stats num_threads random_state "
        "get_float32_matmul_precision set_float32_matmul_precision set_tf32 tf32 memory_budget release_cached_memory reset_peak_memory set_batch_invariant set_default_device set_graph_bound set_memory_budget set_memory_limit "
        "set_num_threads set_origins set_random_state synchronize".split(),
        "about the process",
    ),
}
