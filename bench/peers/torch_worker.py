# SPDX-License-Identifier: MIT
"""PyTorch, eager or (with --compile) under torch.compile. It is also the f64 reference of the comparison."""

import os
import sys
import time

import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from formulas import FORMULAS, energy, is_product, layers, product, smooth
from models import RATES, loss_and_rule
from protocol import Unavailable, bf16_to_f32, serve
from torch_formulas import CHUNKED, SHIPPED, Functions as xp

torch.set_num_threads(int(os.environ["EBB_BENCH_THREADS"]))


class Layers:
    """What models.py needs."""

    relu, gelu, linear, cross_entropy = F.relu, F.gelu, F.linear, F.cross_entropy

    conv = staticmethod(lambda x, w, stride, padding: F.conv2d(x, w, stride=stride, padding=padding))
    batch_norm = staticmethod(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True))
    mean_of_pictures = staticmethod(lambda x: x.mean((2, 3)))
    layer_norm = staticmethod(lambda x, w, b: F.layer_norm(x, w.shape, w, b))
    rows = staticmethod(lambda table, index: F.embedding(index, table))
    checkpoint = staticmethod(lambda f: lambda p, x: checkpoint(f, p, x, use_reentrant=False))

    @staticmethod
    def causal_attention(qkv):
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind()
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


def shipped_name(case):
    return "linear_cross_entropy" if case.startswith("BT=") else case


def loss_of(case):
    if case.startswith("convolution"):
        return lambda x, w: torch.mean(torch.square(F.conv2d(x, w, padding=1)))
    if shipped_name(case) in SHIPPED:
        return SHIPPED[shipped_name(case)]
    if case == "16 layers checkpointed":
        recomputed = lambda run: lambda x, ws: checkpoint(run, x, ws, use_reentrant=False)
        return lambda x, w: layers(xp, x, w, 4, recomputed)
    if case in FORMULAS:
        return lambda *inputs: FORMULAS[case](xp, *inputs)
    raise Unavailable("PyTorch has no such loss")


# Cases that ask for something else than a loss and its gradient.
OTHERS = {
    "matmul": lambda a, b: torch.matmul(a, b),
    "hvp": lambda x, v: torch.func.jvp(torch.func.grad(lambda x: smooth(xp, x)), (x,), (v,))[1],
    "hessian": lambda a, x: torch.func.hessian(lambda x: energy(xp, a, x))(x),
}


def seconds(run):
    """The second call's."""
    run()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


class Torch:
    def __init__(self, compiled):
        self.compiled, self.compile_s = compiled, None

    def load(self, array, dtype, reference):
        if dtype == "bf16":
            wide = torch.from_numpy(bf16_to_f32(array))
            return wide.double() if reference else wide.bfloat16()
        tensor = torch.from_numpy(array)
        return tensor.double() if reference and tensor.is_floating_point() else tensor

    def prepare(self, case, inputs, wrt, mode):
        self.compile_s = None  # measured here where a first call shows whether the case compiles at all
        if self.compiled:
            torch._dynamo.reset()
        compiled = lambda f: torch.compile(f, dynamic=False) if self.compiled else f
        if is_product(case) or case in OTHERS:
            other = compiled(product(case) if is_product(case) else OTHERS[case])
            return lambda: [other(*inputs)]
        loss = loss_of(case)
        if mode == "value":
            forward = compiled(loss)

            def value():
                with torch.no_grad():
                    return [forward(*inputs)]

            return value
        if self.compiled:
            try:
                return self.in_one_graph(loss, inputs, wrt)
            except Exception:  # some losses only compile without their gradient
                torch._dynamo.reset()
        inputs = [x.requires_grad_() if k in wrt else x for k, x in enumerate(inputs)]
        leaves = [inputs[k] for k in wrt]

        def value_and_gradient(forward):
            value = forward(*inputs)
            return [value, *torch.autograd.grad(value, leaves)]

        forward = compiled(loss)
        ways = [lambda: value_and_gradient(forward)]
        if not self.compiled and shipped_name(case) in CHUNKED:
            ways.append(lambda: value_and_gradient(CHUNKED[shipped_name(case)]))
        return min(ways, key=seconds) if len(ways) > 1 else ways[0]

    def in_one_graph(self, loss, inputs, wrt):
        """Loss and gradient compiled together: the fastest that torch.compile does, up to 4 times faster than a
        compiled forward with autograd around it."""
        together = torch.compile(torch.func.grad_and_value(loss, tuple(wrt)), dynamic=False)

        def value_and_gradient():
            gradients, value = together(*inputs)
            return [value, *gradients]

        start = time.perf_counter()
        value_and_gradient()
        self.compile_s = time.perf_counter() - start
        return value_and_gradient

    def training(self, case, x, y, parameters):
        self.compile_s = None
        if self.compiled:
            torch._dynamo.reset()
        loss_of_batch, rule = loss_and_rule(Layers, case)
        leaves = {name: w.clone().requires_grad_() for name, w in parameters.items()}
        if x.dim() == 4:  # the layout PyTorch recommends for convolutions
            x = x.contiguous(memory_format=torch.channels_last)
        optimizer = {
            "adam": lambda ps: torch.optim.Adam(ps, lr=RATES["adam"], fused=True),
            "adamw": lambda ps: torch.optim.AdamW(ps, lr=RATES["adamw"], fused=True),
            "sgd": lambda ps: torch.optim.SGD(ps, lr=RATES["sgd"], momentum=0.9, fused=True),
        }[rule](list(leaves.values()))
        forward = torch.compile(loss_of_batch, dynamic=False) if self.compiled else loss_of_batch

        def step():
            loss = forward(leaves, x, y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return loss.detach()

        return step

    def allocated(self, run):
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
            results = run()
        del results
        events = [e for e in recorded.profiler.kineto_results.events() if e.name() == "[memory]"]
        live = peak = 0
        for event in sorted(events, key=lambda e: e.start_ns()):
            live += event.nbytes()
            peak = max(peak, live)
        return peak

    def to_numpy(self, result):
        return result.detach().double().numpy()

    def forget(self):
        pass


if __name__ == "__main__":
    serve(Torch("--compile" in sys.argv))
