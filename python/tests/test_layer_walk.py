# SPDX-License-Identifier: MIT
"""Every layer on another device: its result, its state and the gradients of its parameters are those of the CPU."""

import copy
import inspect

import numpy as np
import pytest

import ebb
import second_device
from ebb import nn

DEVICE = second_device.find()
DRAW = np.random.default_rng(3)


def real(*shape):
    return ebb.tensor(DRAW.uniform(-1.0, 1.0, shape).astype(np.float32))


LINE, IMAGE, VOLUME, ROWS = real(2, 4, 9), real(2, 4, 6, 6), real(2, 2, 4, 4, 4), real(5, 4)
STEPS = real(5, 2, 4)
# name: arguments, inputs. What is not listed is in WITHOUT_PARAMETERS, or a loss.
LAYERS = {
    "Linear": ((4, 3), (ROWS,)),
    "Bilinear": ((4, 4, 3), (ROWS, ROWS)),
    "Conv1d": ((4, 6, 3, 2, 1), (LINE,)),
    "Conv2d": ((4, 6, 3, 1, "same", 1, 2, True, "reflect"), (IMAGE,)),
    "Conv3d": ((2, 3, 2), (VOLUME,)),
    "ConvTranspose1d": ((4, 3, 3, 2), (LINE,)),
    "ConvTranspose2d": ((4, 3, 3), (IMAGE,)),
    "ConvTranspose3d": ((2, 3, 2), (VOLUME,)),
    "BatchNorm": ((4,), (IMAGE,)),
    "BatchNorm1d": ((4,), (LINE,)),
    "BatchNorm2d": ((4,), (IMAGE,)),
    "BatchNorm3d": ((2,), (VOLUME,)),
    "InstanceNorm": ((4,), (IMAGE,)),
    "InstanceNorm1d": ((4,), (LINE,)),
    "InstanceNorm2d": ((4,), (IMAGE,)),
    "InstanceNorm3d": ((2,), (VOLUME,)),
    "GroupNorm": ((2, 4), (IMAGE,)),
    "LayerNorm": ((4,), (ROWS,)),
    "RMSNorm": ((4,), (ROWS,)),
    "Embedding": ((7, 3), (ebb.tensor([[0, 2], [6, 1]]),)),
    "EmbeddingBag": ((7, 3), (ebb.tensor([[0, 2], [6, 1]]),)),
    "PReLU": ((4,), (ROWS,)),
    "Prelu": ((4,), (ROWS,)),
    "RNN": ((4, 3, 2), (STEPS,)),
    "LSTM": ((4, 6, 2, True, False, 0.0, True, 3), (STEPS,)),
    "GRU": ((4, 3), (STEPS,)),
    "Rnn": ((4, 3), (STEPS,)),
    "Lstm": ((4, 3), (STEPS,)),
    "Gru": ((4, 3), (STEPS,)),
    "RNNCell": ((4, 3), (ROWS,)),
    "LSTMCell": ((4, 3), (ROWS,)),
    "GRUCell": ((4, 3), (ROWS,)),
    "MultiheadAttention": ((4, 2, 0.0, True, True, True), (STEPS, STEPS, STEPS)),
    "TransformerBlock": ((4, 2), (STEPS,)),
    "LinearCrossEntropyLoss": ((4, 3), (ROWS, ebb.tensor([0, 1, 2, 0, 1]))),
    "CosineSimilarity": ((), (ROWS, ROWS * 2 + 1)),
    "PairwiseDistance": ((), (ROWS, ROWS * 2 + 1)),
    "MaxUnpool1d": ((2,), ebb.max_pool1d(LINE, 2, return_indices=True)),
    "MaxUnpool2d": ((2,), ebb.max_pool2d(IMAGE, 2, return_indices=True)),
    "MaxUnpool3d": ((2,), ebb.max_pool3d(VOLUME, 2, return_indices=True)),
    "Fold": (((4, 5), 2), (real(2, 8, 12),)),
    "Unflatten": ((1, (2, 2)), (ROWS,)),
    **{f"MaxPool{axes}d": ((2,), (x,)) for axes, x in ((1, LINE), (2, IMAGE), (3, VOLUME))},
    **{f"AvgPool{axes}d": ((2,), (x,)) for axes, x in ((1, LINE), (2, IMAGE), (3, VOLUME))},
    **{f"AdaptiveAvgPool{axes}d": ((3,), (x,)) for axes, x in ((1, LINE), (2, IMAGE), (3, VOLUME))},
    **{f"AdaptiveMaxPool{axes}d": ((3,), (x,)) for axes, x in ((1, LINE), (2, IMAGE), (3, VOLUME))},
    **{f"LPPool{axes}d": ((2, 2), (x,)) for axes, x in ((1, LINE), (2, IMAGE), (3, VOLUME))},
    **{
        f"{kind}Pad{axes}d": ((1, *(() if kind != "Constant" else (2.0,))), (x,))
        for axes, x in ((1, LINE), (2, IMAGE), (3, VOLUME))
        for kind in ("Circular", "Constant", "Reflection", "Replication", "Zero")
    },
    **{name: ((0.4,), (IMAGE,)) for name in ("Dropout", "Dropout2d", "AlphaDropout", "FeatureAlphaDropout")},
    "Dropout1d": ((0.4,), (LINE,)),
    "Dropout3d": ((0.4,), (VOLUME,)),
    **{
        name: ((), (ROWS,))
        for name in (
            "CELU ELU GELU GLU Geglu Hardshrink Hardsigmoid Hardswish Hardtanh Identity LeakyReLU LogSigmoid LogSoftmax Mish "
            "RReLU ReLU ReLU6 Reglu SELU SiLU Sigmoid Softmax Softmin Softplus Softshrink Softsign Swiglu Tanh Tanhshrink"
        ).split()
    },
    "Threshold": ((0.1, 2.0), (ROWS,)),
    **{name: ((), (IMAGE,)) for name in ("Flatten", "GlobalAvgPool", "GlobalMaxPool", "Softmax2d")},
    **{name: ((2,), (IMAGE,)) for name in ("PixelShuffle", "PixelUnshuffle", "ChannelShuffle", "Unfold", "LocalResponseNorm")},
    "Upsample": ((None, 2, "bilinear"), (IMAGE,)),
    "UpsamplingBilinear2d": ((None, 2), (IMAGE,)),
    "UpsamplingNearest2d": ((None, 2), (IMAGE,)),
}
HOLDERS = "Module ModuleDict ModuleList Sequential Buffer ParameterDict ParameterList".split()  # they compute nothing


def flat(result):
    return [x for part in result for x in flat(part)] if isinstance(result, (tuple, list)) else [] if result is None else [result]


def numbers(x):
    return x.cpu().numpy()


def gradients(layer, results):
    """Of the parameters, for cotangents that differ from element to element."""
    real = [y for y in results if y.dtype.is_floating and y.requires_grad]
    if not real:
        return {}
    total = sum((y * ebb.sin(ebb.arange(y.numel()).cast("f32").reshape(y.shape) + 1.0)).sum() for y in real)
    found = ebb.backward(total)
    return {name: found[p] for name, p in layer.named_parameters() if p in found}


@pytest.mark.parametrize("name", LAYERS)
def test_on_another_device_it_is_the_same(name):
    arguments, inputs = LAYERS[name]
    ebb.manual_seed(5)
    here = getattr(nn, name)(*arguments)
    there = copy.deepcopy(here).to(DEVICE) if isinstance(here, nn.Module) or hasattr(here, "parameters") else here
    results = []
    for layer, device in ((here, "cpu"), (there, DEVICE)):
        ebb.manual_seed(6)
        found = flat(layer(*(x.to(device) for x in inputs)))
        results.append((found, gradients(layer, found), layer.state_dict() if hasattr(layer, "state_dict") else {}))
    (expected, slopes, state), (found, slopes_there, state_there) = results
    assert len(found) == len(expected) and slopes.keys() == slopes_there.keys() and state.keys() == state_there.keys()
    for a, b in zip(found, expected):
        assert a.device == DEVICE
        np.testing.assert_allclose(numbers(a), numbers(b), rtol=1e-5, atol=1e-5)
    for mine, theirs in ((slopes_there, slopes), (state_there, state)):
        for key in theirs:
            assert mine[key].device == DEVICE, key
            np.testing.assert_allclose(numbers(mine[key]), numbers(theirs[key]), rtol=1e-4, atol=1e-4, err_msg=key)


def test_every_layer_is_listed():
    """Under one of its names; losses are functions of the other walk."""
    known = {getattr(nn, name) for name in LAYERS}
    classes = {name: c for name, c in vars(nn).items() if inspect.isclass(c) and not name.startswith("_")}
    missing = [n for n, c in classes.items() if c not in known and not n.endswith("Loss") and n not in HOLDERS]
    assert not missing


def test_methods_that_make_tensors_make_them_there():
    x = ebb.ones((2, 3)).to(DEVICE)
    for made in (x.new_zeros((2,)), x.new_ones((2,)), x.new_full((2,), 3.0), x.new_tensor([1.0, 2.0]), x.new_empty((2,))):
        assert made.device == DEVICE and made.dtype == x.dtype
    assert x.new_zeros((2,), device="cpu").device == "cpu"
    assert x.unfold(1, 2, 1).tolist() == [[[1, 1], [1, 1]]] * 2 and x.sum_to_size(1, 3).tolist() == [[2, 2, 2]]
    assert x.where(x > 0, 0.0).device == x.type_as(x).device == DEVICE


def test_the_array_api_keeps_to_the_device():
    xp = ebb.array_api
    x = ebb.tensor([[3.0, 1.0], [2.0, 4.0]]).to(DEVICE)
    for found in (
        xp.nextafter(x, x + 1),
        xp.cumulative_sum(x, axis=0, include_initial=True),
        xp.diff(x),
        xp.unique_all(x).values,
        xp.take_along_axis(x, xp.argsort(x)),
        xp.searchsorted(x[0, ::-1], x[1]),
        xp.tile(x, (2, 1)),
        xp.vecdot(x, x),
        xp.tensordot(x, x),
        xp.meshgrid(x[0], x[1])[0],
    ):
        assert found.device == DEVICE
        found.eval()
    assert xp.nextafter(x, x + 1).tolist() == np.nextafter(numbers(x), numbers(x) + 1).tolist()
