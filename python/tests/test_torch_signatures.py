# SPDX-License-Identifier: MIT
"""Calls as PyTorch's users write them; make parity compares their numbers with PyTorch's."""

import subprocess
import sys

import numpy as np
import pytest

import ebb
from ebb import nn


def test_losses_take_their_options_by_position():
    x, t = ebb.randn((5, 4)), ebb.randn((5, 4))
    labels, weight = ebb.tensor([0, 1, 2, 3, 0]), ebb.tensor([1.0, 2.0, 3.0, 4.0])
    assert ebb.mse_loss(x, t, None, None, "sum").item() == ebb.mse_loss(x, t, reduction="sum").item()
    assert ebb.huber_loss(x, t, "none", 0.5).shape == (5, 4)
    given = ebb.cross_entropy(x, labels, weight, None, 2, None, "sum", 0.1)
    assert given.item() == ebb.cross_entropy(x, labels, weight, ignore_index=2, reduction="sum", label_smoothing=0.1).item()
    assert ebb.mse_loss(x, t, False).item() == ebb.mse_loss(x, t, reduction="sum").item()
    assert ebb.mse_loss(x, t, reduce=False).shape == (5, 4)
    value, gradient = ebb.mse_loss.value_and_grad(x, t, None, None, "sum", wrt="target")
    assert ebb.allclose(gradient, 2 * (t - x))
    assert nn.CrossEntropyLoss(weight, None, 2)(x, labels).item() == ebb.cross_entropy(x, labels, weight, ignore_index=2).item()


def test_ctc_takes_lists_and_gaussian_nll_a_number():
    log_probs = ebb.log_softmax(ebb.randn((7, 2, 5)), -1)
    targets = ebb.tensor([[1, 2, 3], [4, 4, 0]])
    as_lists = ebb.ctc_loss(log_probs, targets, [7, 6], (3, 2), 0, "sum")
    as_tensors = ebb.ctc_loss(log_probs, targets, ebb.tensor([7, 6]), ebb.tensor([3, 2]), reduction="sum")
    assert as_lists.item() == as_tensors.item()
    x, t = ebb.randn((3, 4)), ebb.randn((3, 4))
    assert ebb.gaussian_nll_loss(x, t, 2.0).item() == ebb.gaussian_nll_loss(x, t, ebb.full((3, 4), 2.0)).item()


def test_losses_broadcast_where_torchs_do():
    x, t = ebb.randn((3, 4)), ebb.randn((1, 4))
    wide = ebb.broadcast_to(t, (3, 4))
    sign = ebb.tensor([[1.0], [-1.0], [1.0]])
    signs = ebb.broadcast_to(sign, (3, 4))
    assert ebb.margin_ranking_loss(x, t, sign).item() == ebb.margin_ranking_loss(x, wide, signs).item()
    assert ebb.hinge_embedding_loss(x, sign).item() == ebb.hinge_embedding_loss(x, signs).item()
    var = ebb.full((3, 1), 0.5)
    assert ebb.gaussian_nll_loss(x, t, var).item() == ebb.gaussian_nll_loss(x, wide, ebb.full((3, 4), 0.5)).item()
    gradients = ebb.margin_ranking_loss_backward(ebb.tensor(1.0), x, t, sign)
    assert gradients.input2.shape == (1, 4)


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"reduction": "sum"}, {"reduction": "none"}])
def test_linear_cross_entropy_of_probabilities_and_of_a_head_with_axes(options):
    x, head, bias = ebb.randn((6, 3), dtype="f64"), ebb.randn((5, 3), dtype="f64"), ebb.randn(5, dtype="f64")
    p = ebb.softmax(ebb.randn((6, 5), dtype="f64"))

    def ours(x, head):
        return ebb.linear_cross_entropy(input=x, linear_weight=head, target=p, linear_bias=bias, chunk=4, **options).sum()

    def plain(x, head):
        return ebb.cross_entropy(ebb.linear(x, head, bias), p, **options).sum()

    for a, b in zip(ebb.value_and_grad(ours, (0, 1))(x, head)[1], ebb.value_and_grad(plain, (0, 1))(x, head)[1]):
        assert ebb.allclose(a, b, rtol=1e-10)
    assert abs(ours(x, head).item() - plain(x, head).item()) < 1e-12

    wide, target = ebb.randn((5, 2, 3), dtype="f64"), ebb.randint(0, 5, (6, 2))
    logits = ebb.linear(x, wide.reshape((10, 3))).reshape((6, 5, 2))
    found = ebb.linear_cross_entropy(x, wide, target, **options)
    assert ebb.allclose(found, ebb.cross_entropy(logits, target, **options), rtol=1e-10)
    p2 = ebb.softmax(ebb.randn((6, 5, 2), dtype="f64"), 1)
    assert ebb.allclose(ebb.linear_cross_entropy(x, wide, p2, **options), ebb.cross_entropy(logits, p2, **options), rtol=1e-10)


def _linear_cross_entropy_options():
    for reduction in ("mean", "sum", "none"):
        for further in ({}, {"label_smoothing": 0.1}, {"z_loss": 0.01}, {"softcap": 2.0}, {"weight": [0.5, 1.0, 2.0, 0.1, 3.0]}):
            yield {"reduction": reduction, **further}


@pytest.mark.parametrize("options", list(_linear_cross_entropy_options()), ids=str)
@pytest.mark.parametrize("axes", [(), (2,)])
def test_linear_cross_entropy_differentiates_probabilities(options, axes):
    options = dict(options)
    if "weight" in options:
        options["weight"] = ebb.tensor(options["weight"], dtype="f64")
    ebb.manual_seed(3)
    x, head, bias = (ebb.randn(shape, dtype="f64") for shape in ((6, 3), (5, *axes, 3), (5, *axes)))
    p = ebb.softmax(ebb.randn((6, 5, *axes), dtype="f64"), 1)
    logits = ebb.linear(x, head.reshape((-1, 3)), bias.reshape((-1,))).reshape((6, 5, *axes))
    grad = ebb.randn(ebb.linear_cross_entropy(x, head, p, bias=bias, **options).shape, dtype="f64")
    expected = ebb.losses.cross_entropy_backward(grad, logits, p, **options).target
    for chunk in (0, 4):
        found = ebb.losses.linear_cross_entropy_backward(grad, x, head, p, bias=bias, chunk=chunk, **options)
        assert ebb.allclose(found.target, expected, rtol=1e-10, atol=1e-14)
    classes = ebb.losses.linear_cross_entropy_backward(grad, x, head, ebb.argmax(p, 1), bias=bias, **options)
    assert classes.target is None


def test_linear_log_probs_gives_the_outputs_asked_for():
    ebb.manual_seed(3)
    x, head, bias = (ebb.randn(shape, dtype="f64") for shape in ((2, 5, 3), (7, 3), (7,)))
    target = ebb.tensor([[0, 6, -100, 2, 3], [1, 1, 5, 4, 0]])
    logits = ebb.tanh(ebb.linear(x, head, bias) * 1.5 / 2) * 2 / 0.7
    log_p, kept = ebb.log_softmax(logits, -1), target != -100
    expected = {
        "log_probs": ebb.squeeze(ebb.gather(log_p, -1, ebb.unsqueeze(ebb.where(kept, target, 0), -1)), -1),
        "entropy": -(ebb.exp(log_p) * log_p).sum(-1),
        "logsumexp": ebb.logsumexp(logits, -1),
        "log_sum_sq_probs": ebb.logsumexp(2 * log_p, -1),
        "mean_logits": logits.mean(-1),
        "argmax": ebb.argmax(logits, -1),
    }
    options = {"bias": bias, "logit_scale": 1.5, "softcap": 2.0, "temperature": 0.7}
    for chunk in (0, 4):
        found = ebb.linear_log_probs(x, head, target, outputs=tuple(expected), chunk=chunk, **options)
        assert isinstance(found, tuple)
        for name, y in zip(expected, found):
            assert ebb.allclose(ebb.cast(y, "f64"), ebb.cast(ebb.where(kept, expected[name], 0), "f64"), rtol=1e-10), name
            alone = ebb.linear_log_probs(x, head, target, outputs=name, chunk=chunk, **options)
            assert ebb.allclose(ebb.cast(alone, "f64"), ebb.cast(y, "f64"), rtol=1e-12), name
    assert ebb.linear_log_probs(ebb.cast(x, "bf16"), ebb.cast(head, "bf16"), target).dtype == ebb.float32
    with pytest.raises(ValueError, match="there is no output 'perplexity'; there are log_probs, entropy, logsumexp"):
        ebb.linear_log_probs(x, head, target, outputs="perplexity")

    def total(x, head):
        return sum(y.sum() for y in ebb.linear_log_probs(x, head, target, outputs=("entropy", "logsumexp"), chunk=4))

    def plain(x, head):
        z = ebb.linear(x, head)
        p = ebb.log_softmax(z, -1)
        return ebb.where(kept, ebb.logsumexp(z, -1) - (ebb.exp(p) * p).sum(-1), 0).sum()

    for a, b in zip(ebb.grad(total, (0, 1))(x, head), ebb.grad(plain, (0, 1))(x, head)):
        assert ebb.allclose(a, b, rtol=1e-9, atol=1e-12)


def test_attention_has_torchs_results():
    ebb.manual_seed(0)
    x = ebb.randn((5, 2, 8))
    layer = nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True)
    y, weights = layer(x, x, x)
    assert y.shape == (5, 2, 8) and weights.shape == (2, 5, 7)
    assert np.allclose(weights.numpy().sum(-1), 1, atol=1e-5)
    again, nothing = layer(x, x, x, need_weights=False)
    assert nothing is None and ebb.allclose(again, y, rtol=1e-4, atol=1e-5)
    alone, _ = layer(x[:, 0], x[:, 0], x[:, 0])
    assert ebb.allclose(alone, y[:, 0], rtol=1e-4, atol=1e-5)
    first = nn.MultiheadAttention(8, 2, kdim=3, vdim=4, batch_first=True)
    y, weights = first(ebb.randn((2, 5, 8)), ebb.randn((2, 6, 3)), ebb.randn((2, 6, 4)), average_attn_weights=False)
    assert y.shape == (2, 5, 8) and weights.shape == (2, 2, 5, 6)
    names = {name for name, _ in first.named_parameters()}
    assert names == {"q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}
    # A query sees what is before it, however that is said.
    plain = nn.MultiheadAttention(8, 2)
    later = ebb.triu(ebb.ones((5, 5)), 1) > 0
    masked, _ = plain(x, x, x, attn_mask=later)
    causal, _ = plain(x, x, x, is_causal=True)
    assert ebb.allclose(masked, causal)
    padding = ebb.tensor([[False, False, True, True, True], [False] * 5])
    padded, weights = plain(x, x, x, key_padding_mask=padding)
    assert weights[0, :, 2:].abs().max().item() == 0
    assert ebb.backward(padded.sum())[plain.in_proj_weight].abs().max().item() > 0


def test_lstm_projects_and_goes_without_a_batch():
    layer = nn.LSTM(4, 6, 2, bidirectional=True, proj_size=3)
    y, (h, c) = layer(ebb.randn((5, 2, 4)))
    assert y.shape == (5, 2, 6) and h.shape == (4, 2, 3) and c.shape == (4, 2, 6)
    shapes = {name: tensor.shape for name, tensor in layer.named_parameters()}
    assert shapes["weight_hr_l0"] == (3, 6) and shapes["weight_hh_l1_reverse"] == (24, 3)
    y, (h, c) = layer(ebb.randn((5, 4)))
    assert y.shape == (5, 6) and h.shape == (4, 3) and c.shape == (4, 6)
    with pytest.raises(ValueError, match="proj_size is for an LSTM"):
        nn.GRU(4, 6, proj_size=3)


def test_instance_norm_has_torchs_arguments():
    x, weight, bias = ebb.randn((2, 3, 7)), ebb.randn(3), ebb.randn(3)
    plain = ebb.instance_norm(x, None, None, weight, bias, True, 0.1, 1e-3)
    assert ebb.allclose(plain, ebb.instance_norm(x, weight=weight, bias=bias, eps=1e-3))
    y, mean, var = ebb.instance_norm(x, ebb.zeros(3), ebb.ones(3), momentum=0.5)
    assert ebb.allclose(mean, x.mean((0, 2)) * 0.5, atol=1e-6)
    assert ebb.allclose(var, 0.5 + x.var(2).mean(0) * 0.5, atol=1e-6)
    running = ebb.instance_norm(x, mean, var, use_input_stats=False)
    assert ebb.allclose(running, ebb.batch_norm(x, mean, var)[0])


def test_layers_say_what_they_are():
    assert repr(nn.Linear(3, 4, bias=False)) == "Linear(in_features=3, out_features=4, bias=False)"
    assert repr(nn.GELU()) == "GELU(approximate='none')"
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Linear(8, 2))
    assert repr(model).splitlines() == [
        "Sequential(",
        "  (0): Conv2d(in_channels=1, out_channels=8, kernel_size=3, stride=1, padding=1, dilation=1, groups=1, bias=True)",
        "  (1): ReLU()",
        "  (2): Linear(in_features=8, out_features=2, bias=True)",
        ")",
    ]

    class Own(nn.Module):
        def __init__(self):
            self.scale, self.seen = nn.Parameter(ebb.ones(3)), nn.Buffer(ebb.tensor(0))
            self.layers = [nn.Dropout(0.1), nn.LSTM(3, 4)]

    shown = repr(Own())
    assert "(scale): Tensor(shape=(3,), dtype=f32)" in shown and "(seen): Buffer(shape=(), dtype=i64)" in shown
    assert "(0): Dropout(p=0.1)" in shown and "(1): LSTM(input_size=3, hidden_size=4" in shown


@pytest.mark.parametrize("order", ["import ebb, einops", "import einops, ebb"])
def test_einops_knows_tensors(order):
    program = f"""
{order}
x = ebb.randn((2, 3, 4))
assert einops.rearrange(x, "a b c -> (a c) b").shape == (8, 3)
assert ebb.allclose(einops.reduce(x, "a b c -> a c", "mean"), x.mean(1))
assert einops.repeat(x, "a b c -> a r b c", r=5).shape == (2, 5, 3, 4)
assert ebb.allclose(einops.einsum(x, x, "a b c, a b c -> a"), (x * x).sum((1, 2)), rtol=1e-4)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16"])
@pytest.mark.parametrize("padding", [None, 1])
@pytest.mark.parametrize("options", [{"mode": "sum"}, {"mode": "mean"}, {"mode": "max"}, {"mode": "sum", "weights": True}])
def test_bags_of_embeddings(dtype, padding, options):
    """Of rows and of a vector with offsets (an empty bag among them), beside loops; gradients are sums of cotangents."""
    table = (ebb.arange(9 * 5).reshape((9, 5)).cast("f64") * 0.7).sin().cast(dtype)
    bags = [[3, 1, 3], [], [1, 0, 8, 2, 2], [7]]
    flat, starts = [i for bag in bags for i in bag], [0, 3, 3, 8]
    even = [[3, 1, 3], [0, 8, 2], [1, 1, 1]]
    rows, mode = table.cast("f64").tolist(), options["mode"]
    for index, offsets, lists in ((flat, starts, bags), (even, None, even)):
        index = ebb.tensor(index)
        weights = (ebb.arange(index.numel()).cast("f64") + 1).reshape(index.shape) / 4 if "weights" in options else None
        numbers = [1.0] * index.numel() if weights is None else weights.reshape((-1,)).tolist()
        expected, slopes, at = [], [[0.0] * 5 for _ in rows], 0
        for bag in lists:
            kept = [(i, numbers[at + k]) for k, i in enumerate(bag) if i != padding]
            at += len(bag)
            divisor = max(len(kept), 1) if mode == "mean" else 1
            for i, w in kept:
                slopes[i] = [s + w / divisor for s in slopes[i]]
            columns = [[rows[i][c] * w for i, w in kept] for c in range(5)]
            expected.append([(max(c, default=0.0) if mode == "max" else sum(c) / divisor) for c in columns])

        def f(t):
            return ebb.embedding_bag(
                index, t, None if offsets is None else ebb.tensor(offsets), mode=mode, padding_idx=padding,
                per_sample_weights=None if weights is None else weights.cast(dtype),
            )

        tolerance = {"f64": 1e-12, "f32": 1e-5, "bf16": 2e-2}[dtype]
        assert f(table).dtype.name == dtype
        assert ebb.allclose(f(table).cast("f64"), ebb.tensor(expected, dtype="f64"), atol=tolerance, rtol=tolerance)
        if mode != "max":
            found = ebb.grad(lambda t: f(t).sum())(table).cast("f64")
            assert ebb.allclose(found, ebb.tensor(slopes, dtype="f64"), atol=tolerance, rtol=tolerance)


def test_a_position_that_max_unpool_is_given_twice():
    x, at = ebb.tensor([[[1.0, 2.0], [2.0, 4.0]]]), ebb.tensor([[[5, 6], [6, 15]]])
    weights = ebb.arange(16).cast("f32").reshape((1, 4, 4))
    assert ebb.max_unpool2d(x, at, 2).reshape((-1,)).tolist() == [0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 4]
    assert ebb.grad(lambda v: (ebb.max_unpool2d(v, at, 2) * weights).sum())(x).tolist() == [[[5, 6], [6, 15]]]


def test_rarer_functions():
    x = ebb.randn((2, 6, 8, 8))
    identity = ebb.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]] * 2)
    grid = ebb.affine_grid(identity, (2, 6, 8, 8), align_corners=False)
    assert ebb.allclose(ebb.grid_sample(x, grid, align_corners=False), x, atol=1e-5)
    values, at = ebb.max_pool2d(x, 2, return_indices=True)
    back = ebb.max_unpool2d(values, at, 2)
    assert back.shape == x.shape and ebb.allclose(ebb.max_pool2d(back.abs(), 2), values.abs())
    assert ebb.channel_shuffle(x, 3)[0, 1, 0, 0].item() == x[0, 2, 0, 0].item()
    volume = ebb.randn((1, 2, 4, 4, 4))
    values, at = ebb.max_pool3d(volume, 2, return_indices=True)
    assert ebb.allclose(volume.reshape((1, 2, 64)).gather(2, at.reshape((1, 2, 8))), values.reshape((1, 2, 8)))
    assert ebb.adaptive_avg_pool3d(volume, (2, None, 1)).shape == (1, 2, 2, 4, 1)
    up = ebb.conv_transpose3d(volume, ebb.randn((2, 3, 2, 2, 2)), stride=2)
    assert up.shape == (1, 3, 8, 8, 8)
    ebb.manual_seed(0)
    many = ebb.randn((4000,))
    dropped = ebb.alpha_dropout(many, 0.3, True)
    assert abs(float(dropped.mean())) < 0.1 and abs(float(dropped.std()) - 1) < 0.1
    bags = ebb.embedding_bag(ebb.tensor([0, 1, 1, 2]), ebb.tensor([[1.0], [2.0], [4.0]]), ebb.tensor([0, 3, 3]), mode="sum")
    assert bags.tolist() == [[5.0], [0.0], [4.0]]
