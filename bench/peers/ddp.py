# SPDX-License-Identifier: MIT
"""A rank of PyTorch's DistributedDataParallel on gloo, for bench/distributed.py: the networks of bench/ranks/main.cc.
    ddp.py CASE RANK RANKS THREADS STEPS PORT
Prints what ebb_bench_ranks prints."""

import json
import os
import sys
import time

case, rank, ranks, threads, steps, port = sys.argv[1], *map(int, sys.argv[2:7])
os.environ.update(EBB_BENCH_THREADS=str(threads), OMP_NUM_THREADS=str(threads), MASTER_ADDR="127.0.0.1",
                  MASTER_PORT=str(port))

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from models import gpt, mlp, resnet
from torch_worker import Layers


def linear(name, inputs, outputs, bias=True):
    shapes = {f"{name}.weight": (outputs, inputs)}
    return {**shapes, f"{name}.bias": (outputs,)} if bias else shapes


def norm(name, width):
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def mlp_shapes():
    return {**linear("first", 784, 1024), **linear("second", 1024, 1024), **linear("third", 1024, 10)}


def resnet_shapes(width=16, blocks=3):
    shapes = {"stem.weight": (width, 3, 3, 3), **norm("norm", width)}
    inputs, k = width, 0
    for stage in range(3):
        for block in range(blocks):
            outputs, name = width << stage, f"blocks.{k}"
            shapes.update({f"{name}.conv1.weight": (outputs, inputs, 3, 3), **norm(f"{name}.norm1", outputs),
                           f"{name}.conv2.weight": (outputs, outputs, 3, 3), **norm(f"{name}.norm2", outputs)})
            if inputs != outputs:
                shapes.update({f"{name}.shortcut.weight": (outputs, inputs, 1, 1),
                               **norm(f"{name}.shortcut_norm", outputs)})
            inputs, k = outputs, k + 1
    return {**shapes, **linear("head", 4 * width, 10)}


def gpt_shapes(layers=4, width=256, time=256, vocabulary=32000):
    shapes = {"tokens.weight": (vocabulary, width), "positions.weight": (time, width)}
    for k in range(layers):
        name = f"blocks.{k}"
        shapes.update({**norm(f"{name}.norm1", width), **norm(f"{name}.norm2", width),
                       f"{name}.self_attn.in_proj_weight": (3 * width, width),
                       f"{name}.self_attn.in_proj_bias": (3 * width,),
                       **linear(f"{name}.self_attn.out_proj", width, width),
                       **linear(f"{name}.linear1", width, 4 * width), **linear(f"{name}.linear2", 4 * width, width)})
    return {**shapes, **norm("norm", width), "head.weight": (vocabulary, width)}


CASES = {
    "mlp": (mlp, mlp_shapes, lambda: (torch.randn(128, 784), torch.randint(10, (128,)))),
    "cnn": (resnet, resnet_shapes, lambda: (torch.randn(64, 3, 32, 32), torch.randint(10, (64,)))),
    "gpt": (gpt, gpt_shapes, lambda: (torch.randint(32000, (4, 256)), torch.randint(32000, (4, 256)))),
}


class Network(torch.nn.Module):
    def __init__(self, loss, shapes):
        super().__init__()
        self.loss, self.names = loss, list(shapes)
        for name, shape in shapes.items():
            scale = 1 / (torch.tensor(shape[1:]).prod().item() ** 0.5) if len(shape) > 1 else 0
            value = torch.randn(shape) * scale + (1 if "norm" in name and name.endswith("weight") else 0)
            self.register_parameter(name.replace(".", "/"), torch.nn.Parameter(value))

    def forward(self, x, y):
        return self.loss(Layers, {name: getattr(self, name.replace(".", "/")) for name in self.names}, x, y)


torch.manual_seed(1)
loss, shapes, batch = CASES[case]
network = Network(loss, shapes())
x, y = (t.chunk(ranks)[rank] for t in batch())
if x.dim() == 4:
    x = x.contiguous(memory_format=torch.channels_last)
if ranks > 1:
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    network = DistributedDataParallel(network)
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)


def step():
    optimizer.zero_grad()
    value = network(x, y)
    value.backward()
    optimizer.step()
    return value.item()


for _ in range(3):
    step()
if ranks > 1:
    dist.barrier()
times, processor = [], time.process_time()
for _ in range(steps):
    start = time.perf_counter()
    last = step()
    times.append(time.perf_counter() - start)
used = (time.process_time() - processor) / steps
everyone = [used]
if ranks > 1:
    everyone = [None] * ranks
    dist.all_gather_object(everyone, used)
if rank == 0:
    print(json.dumps({"times": times, "loss": last, "ranks": [[u, 0, 0] for u in everyone]}))
if ranks > 1:
    dist.destroy_process_group()
