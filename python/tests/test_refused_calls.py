# SPDX-License-Identifier: MIT
"""Calls that PyTorch refuses are refused here, by a sentence that names the function. make parity walks all of PyTorch's own
list (python/parity/refusals.py); these need no PyTorch."""

import pytest

import ebb
from ebb import nn

X, CUBE, IMAGE = ebb.ones((3, 4)), ebb.ones((2, 3, 4)), ebb.ones((1, 1, 4, 4))
INDEX = ebb.zeros((1, 1, 4, 4)).cast("i64")
CALLS = {
    "cov of three axes": (lambda: ebb.cov(CUBE), "cov: needs a matrix or a vector, got shape"),
    "cov, real counts": (lambda: ebb.cov(X, fweights=ebb.ones(4)), "cov: fweights count observations"),
    "cov, counts": (lambda: ebb.cov(X, fweights=ebb.tensor([1, 2])), "cov: fweights of shape \\(2,\\)"),
    "cov, weights": (lambda: ebb.cov(X, aweights=ebb.ones(3)), "cov: aweights of shape \\(3,\\)"),
    "cov, negative": (lambda: ebb.cov(X, aweights=-ebb.ones(4)), "cov: aweights must not be negative.*\\[0\\] is -1"),
    "max_unpool2d, shapes": (lambda: ebb.max_unpool2d(IMAGE, INDEX[..., :1], 2), "max_unpool2d: indices of shape"),
    "max_unpool2d, rank": (lambda: ebb.max_unpool2d(X, X.cast("i64"), 2), "max_unpool2d: needs \\[N, C, ...\\]"),
    "max_unpool2d, stride": (lambda: ebb.max_unpool2d(IMAGE, INDEX, 2, 0), "strides of 1 or more"),
    "max_unpool2d, index": (lambda: ebb.max_unpool2d(IMAGE, INDEX + 64, 2), "64 is outside \\[0, 64\\)"),
    "rrelu": (lambda: ebb.rrelu(X, 0.3, 0.1), "rrelu: lower must not be larger than upper"),
    "rot90": (lambda: ebb.rot90(X, 1, (1, -1)), "rot90: \\(1, -1\\) are not two axes"),
    "flipud": (lambda: ebb.flipud(ebb.tensor(1.0)), "flipud: a tensor without axes"),
    "masked_scatter, mask": (lambda: ebb.masked_scatter(X, X, X), "masked_scatter: the mask must be bool"),
    "masked_scatter, source": (lambda: ebb.masked_scatter(X, X > 0, ebb.ones(5)), "masked_scatter: the source has 5"),
    "select_scatter": (lambda: ebb.select_scatter(X, ebb.ones(4), 0, 3), "select_scatter: index 3 is outside"),
    "isclose": (lambda: ebb.isclose(X, X, rtol=-1.0), "isclose: tolerances must not be negative"),
    "avg_pool2d": (lambda: ebb.avg_pool2d(IMAGE, 2, divisor_override=0), "avg_pool2d: divisor_override must not be 0"),
    "max_pool1d": (lambda: ebb.max_pool1d(CUBE, 2, stride=0), "max_pool1d: .*stride"),
    "conv3d": (
        lambda: ebb.conv3d(ebb.ones((1, 1, 4, 4, 4)), ebb.ones((1, 1, 2, 2, 2)), None, 2, "same"),
        "conv3d: padding='same' needs a stride of 1",
    ),
    "affine_grid, theta": (
        lambda: nn.functional.affine_grid(CUBE, (2, 1, 5, 5)),
        "affine_grid: theta of shape \\(2, 3, 4\\) does not fit, a size of \\(2, 1, 5, 5\\) needs \\(2, 2, 3\\)",
    ),
    "conv_tbc, channels": (
        lambda: nn.functional.conv_tbc(CUBE, CUBE, ebb.ones(4)),
        "conv_tbc: needs an input .* got shapes \\(2, 3, 4\\) and \\(2, 3, 4\\)",
    ),
    "conv_tbc, kernel": (
        lambda: nn.functional.conv_tbc(CUBE, ebb.ones((5, 4, 2)), ebb.ones(2), 1),
        "conv_tbc: a kernel of 5 does not fit into 2 steps with a padding of 1",
    ),
    "mean": (lambda: ebb.mean(X, dtype=ebb.i64), "mean: the dtype of a mean must be floating"),
    "multinomial, rank": (lambda: ebb.multinomial(CUBE, 1), "multinomial: needs a vector or a matrix"),
    "multinomial, dtype": (lambda: ebb.multinomial(X.cast("i64"), 1), "multinomial: needs a vector or a matrix of floats"),
    "multinomial, samples": (lambda: ebb.multinomial(X, 0), "multinomial: the number of samples must be positive"),
    "multinomial, negative": (lambda: ebb.multinomial(-X, 1), "multinomial: weights must be finite and not negative"),
    "multinomial, infinite": (lambda: ebb.multinomial(X / 0, 1), "multinomial: weights must be finite"),
    "multinomial, zeros": (lambda: ebb.multinomial(X * 0, 1, True), "multinomial: a row needs 1 weights"),
    "multinomial, few": (lambda: ebb.multinomial(ebb.tensor([1.0, 0.0]), 2), "multinomial: a row needs 2 weights"),
    "index_add": (
        lambda: ebb.index_add(X.cast("i64"), 0, ebb.tensor([0]), X[:1].cast("i64"), alpha=0.5),
        "index_add: alpha must be a whole number",
    ),
    "histc": (lambda: ebb.histc(X, 0, 0, 1), "histc: cannot make 0 parts"),
    "pdist": (lambda: ebb.pdist(CUBE), "pdist: needs a matrix"),
    "cdist": (lambda: ebb.cdist(X, X, compute_mode="fast"), "cdist: compute_mode is one of use_mm_for_euclid_dist_if_necessary"),
    "cross": (lambda: ebb.cross(X, X), "cross: axis -1 must have size 3"),
    "addbmm": (lambda: ebb.addbmm(X, CUBE, CUBE), "addbmm: needs equally many matrices"),
    "addmv": (lambda: ebb.addmv(X[0], X[0], X[0]), "addmv: needs a matrix and a vector"),
    "addr": (lambda: ebb.addr(X, X, X[0]), "addr: needs two vectors"),
    "addmm, whole numbers": (lambda: ebb.addmm(*[ebb.ones((2, 2)).cast("i64")] * 3, alpha=0.5), "addmm: alpha must be a whole"),
    "batch_norm": (lambda: ebb.batch_norm(X, None, None, training=True, eps=-1.0), "batch_norm: eps must not be negative"),
    "cross_entropy": (lambda: ebb.cross_entropy(X, X, ignore_index=1), "cross_entropy: ignore_index = 1 is for class indices"),
    "linear_cross_entropy": (
        lambda: ebb.linear_cross_entropy(X, ebb.ones((2, 4)), ebb.ones((3, 2)), ignore_index=0),
        "linear_cross_entropy: ignore_index = 0 is for class indices",
    ),
    "CircularPad1d": (lambda: nn.CircularPad1d(1)(IMAGE), "CircularPad1d: needs \\[N, C, ...\\]"),
    "GRUCell": (lambda: nn.GRUCell(4, 5)(X, IMAGE), "GRUCell: the state has shape \\(1, 1, 4, 4\\), not \\(3, 5\\)"),
    "LSTMCell": (lambda: nn.LSTMCell(4, 5)(X, (IMAGE, IMAGE)), "LSTMCell: the state has shape"),
    "LSTM": (lambda: nn.LSTM(0, 5), "LSTM: input_size must be positive"),
    "Softmax": (lambda: nn.Softmax(dim=1.0), "Softmax: the axis must be an integer"),
    "HuberLoss": (lambda: nn.HuberLoss(delta=1j), "HuberLoss: delta must be a real number"),
    "LinearCrossEntropyLoss": (lambda: nn.LinearCrossEntropyLoss(3, 2, label_smoothing=2.0), "label_smoothing must be in"),
    # Arguments that are not tensors are named in the error.
    "ldexp": (lambda: ebb.ldexp(2.0, X), "ldexp: input must be a tensor, got float"),
    "heaviside": (lambda: ebb.heaviside(2.0, X), "heaviside: input must be a tensor, got float"),
    "kthvalue": (lambda: ebb.kthvalue([1.0, 2.0], 1), "kthvalue: input must be a tensor, got list"),
    "cat": (lambda: ebb.cat([X, None]), "cat: element 1 is not a tensor but None"),
    "cat of numbers": (lambda: ebb.cat([2.0, X]), "cat: element 0 is not a tensor but a float"),
}


@pytest.mark.parametrize("name", CALLS)
def test_is_refused(name):
    call, message = CALLS[name]
    with pytest.raises((ValueError, TypeError, IndexError), match=message):
        found = call()
        ebb.eval([found] if isinstance(found, ebb.Tensor) else list(found))


def test_zero_is_no_stride_and_an_empty_one_is_none():
    assert ebb.max_pool1d(CUBE, 2, stride=()).shape == ebb.max_pool1d(CUBE, 2).shape == (2, 3, 2)
    with pytest.raises(ValueError):
        ebb.avg_pool1d(CUBE, 2, stride=0)
