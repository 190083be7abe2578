# SPDX-License-Identifier: MIT
"""Writes golden.h: what PyTorch gives for linear cross-entropy and CTC on the inputs of numbers.h, in f64."""
import sys
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def values(shape, phase=0, scale=1.0):
    n = 1
    for s in shape:
        n *= s
    v = [((i * 7919 + phase * 104729 + 311) % 1009) / 504.5 - 1.0 + 1e-4 for i in range(n)]
    return (torch.tensor(v).reshape(shape) * scale)


def classes(n, count, phase=0):
    return torch.tensor([(i * 31 + phase * 17 + 5) % count for i in range(n)])


out = ["#pragma once", "#include <vector>", "", "// Written by make_golden.py with PyTorch %s." % torch.__version__.split("+")[0],
       "namespace ebb::golden {", ""]


def put(name, tensor):
    numbers = ", ".join(repr(float(x)) for x in tensor.detach().reshape(-1))
    out.append("inline const std::vector<double> %s = {%s};" % (name, numbers))


x, w, b = values((6, 4), 1).requires_grad_(), values((9, 4), 2).requires_grad_(), values((9,), 3).requires_grad_()
t = classes(6, 9)
t[2] = -100
cw = values((9,), 4) * 0.4 + 0.5
for name, kw in [("plain", {}), ("weighted", dict(weight=cw)), ("smooth", dict(weight=cw, label_smoothing=0.1)),
                 ("total", dict(reduction="sum")), ("rows", dict(reduction="none"))]:
    loss = F.cross_entropy(x @ w.T + b, t, ignore_index=-100, **kw)
    g = torch.autograd.grad((loss * values(loss.shape, 5)).sum(), (x, w, b))
    put("linear_%s" % name, loss)
    for part, v in zip(("x", "head", "bias"), g):
        put("linear_%s_%s" % (name, part), v)

# PyTorch's gradient of ctc_loss is right only behind a log_softmax: so it is compared there.
logits = values((7, 3, 5), 6, 2.0).requires_grad_()
targets = torch.tensor([[1, 2, 2], [3, 1, 4], [2, 4, 1]])
lengths, target_lengths = torch.tensor([7, 6, 5]), torch.tensor([3, 2, 1])
for name in ("mean", "sum", "none"):
    loss = F.ctc_loss(F.log_softmax(logits, -1), targets, lengths, target_lengths, reduction=name)
    (g,) = torch.autograd.grad((loss * values(loss.shape, 5)).sum(), logits)
    put("ctc_%s" % name, loss)
    put("ctc_%s_gradient" % name, g)
out += ["", "}  // namespace ebb::golden", ""]
open(sys.argv[1], "w").write("\n".join(out))
