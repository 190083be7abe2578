#!/usr/bin/env python3
"""Writes golden/layers.txt: outputs and input gradients of torch.nn's layers in double precision.

The tests read the file and need no PyTorch. Run this only when a case is added:  python3 make_golden.py
Parameters and inputs are formulas (`waves`), so that only results are stored.
"""
import math
import pathlib

import torch
from torch import nn

here = pathlib.Path(__file__).parent / "golden"
here.mkdir(exist_ok=True)
torch.set_default_dtype(torch.float64)


def waves(shape, phase, scale=0.5):
    n = math.prod(shape)
    return (torch.sin(torch.arange(n) * 12.9898 + phase) * scale).reshape(shape)


def fill(module):
    """Parameter k of the module, in its own order, is waves of phase k + 1."""
    with torch.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_(waves(p.shape, k + 1.0))
    return module.eval()


def words(t):
    return " ".join("%.17g" % v for v in t.detach().flatten().tolist())


with open(here / "layers.txt", "w") as out:
    def case(name, module, shape, call=lambda m, x: m(x)):
        fill(module)
        x = waves(shape, 0.5, 1.0).requires_grad_()
        y = call(module, x)
        (y * waves(y.shape, 0.25)).sum().backward()
        print(name, words(y), file=out)
        print(name + ".input", words(x.grad), file=out)
        first = next(module.parameters(), None)
        if first is not None:
            print(name + ".first", words(first.grad), file=out)

    case("linear", nn.Linear(5, 3), (2, 4, 5))
    case("linear_no_bias", nn.Linear(5, 3, bias=False), (4, 5))
    case("layer_norm", nn.LayerNorm(6), (3, 6))
    case("rms_norm", nn.RMSNorm(6, eps=1e-6), (3, 6))
    case("sequential", nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.Linear(8, 2)), (3, 5))
    causal = torch.triu(torch.full((5, 5), -math.inf), 1)
    case("attention", nn.MultiheadAttention(8, 2, batch_first=True), (2, 5, 8), lambda m, x: m(x, x, x)[0])
    case("attention_causal", nn.MultiheadAttention(8, 4, batch_first=True), (2, 5, 8),
         lambda m, x: m(x, x, x, attn_mask=causal)[0])
    case("attention_cross", nn.MultiheadAttention(8, 2, batch_first=True), (2, 5, 8),
         lambda m, x: m(x[:, :2], x[:, 1:], x[:, 1:] * 2)[0])
    case("block", nn.TransformerEncoderLayer(8, 2, 12, 0.0, "gelu", batch_first=True, norm_first=True), (2, 5, 8),
         lambda m, x: m(x, src_mask=causal))
    case("block_norm_last", nn.TransformerEncoderLayer(8, 2, 12, 0.0, "relu", batch_first=True), (2, 5, 8))
    case("rnn", nn.RNN(4, 3, batch_first=True), (2, 6, 4), lambda m, x: m(x)[0])
    case("rnn_relu", nn.RNN(4, 3, nonlinearity="relu", bias=False, batch_first=True), (2, 6, 4), lambda m, x: m(x)[0])
    case("lstm", nn.LSTM(4, 3, batch_first=True), (2, 6, 4), lambda m, x: m(x)[0])
    case("lstm_cell", nn.LSTM(4, 3, batch_first=True), (2, 6, 4), lambda m, x: m(x)[1][1][0])
    case("gru", nn.GRU(4, 3, batch_first=True), (2, 6, 4), lambda m, x: m(x)[0])
