# SPDX-License-Identifier: MIT
"""Suites `attention` and `ctc`."""

import torch
import torch.nn.functional as F

import ebb
from gpu.comparison import compare
from gpu.contenders import eager_step


def attention(run):
    machine = run.machine
    shapes = [(1, 2, 32, 16)] if machine.small else [(16, 12, 1024, 64), (4, 16, 2048, 128)]
    for shape in shapes[:1] if machine.quick else shapes:
        q, k, v, g = (torch.randn(shape, device=machine.device, dtype=torch.bfloat16) for _ in range(4))
        compare(run, "attention", f"attention bf16 {list(shape)}, causal",
                lambda q, k, v, g: (ebb.scaled_dot_product_attention(q, k, v, is_causal=True) * g).sum(),
                lambda q, k, v, g: (F.scaled_dot_product_attention(q, k, v, is_causal=True) * g).sum(), [q, k, v, g],
                5e-2, (0, 1, 2), bound_by_memory=False)


def ctc(run):
    machine = run.machine
    frames, batch, classes, length = (12, 2, 8, 3) if machine.small else (512, 64, 128, 64)
    x = torch.randn(frames, batch, classes, device=machine.device)  # PyTorch's gradient is that of a softmax's logits
    labels = torch.randint(1, classes, (batch, length), device=machine.device)
    frame_counts = torch.full((batch,), frames, device=machine.device)
    lengths = torch.full((batch,), length, device=machine.device)
    on_host = labels.flatten().int().cpu()  # as cuDNN takes them

    def by_cudnn(x, *_):
        terms, _ = torch._cudnn_ctc_loss(x.log_softmax(-1), on_host, [frames] * batch, [length] * batch, 0, False, False)
        return (terms / length).mean()

    arguments = [x, labels, frame_counts, lengths]
    compare(run, "ctc", f"ctc_loss f32 T {frames}, N {batch}, C {classes}, S {length}",
            lambda x, *rest: ebb.ctc_loss(ebb.log_softmax(x, -1), *rest),
            lambda x, *rest: F.ctc_loss(x.log_softmax(-1), *rest), arguments, 4e-4,  # PyTorch's f32 sums err by 8e-4
            more={"cudnn": eager_step(by_cudnn, arguments, (0,))} if machine.on_gpu else {}, bound_by_memory=False)
