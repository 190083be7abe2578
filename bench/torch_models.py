# SPDX-License-Identifier: MIT
"""torch_models.py {llama,resnet50,vit}: the networks of examples/llama.cc, resnet50.cc and vit.cc in PyTorch, in bf16 with f32
weights, printing the same figures. By default by torch.compile and, for pictures, in channels_last memory; Llama's loss is
Liger's where liger_kernel is installed. --mode none is eager PyTorch."""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", choices=["llama", "resnet50", "vit"])
parser.add_argument("--device", default="cuda")
parser.add_argument("--mode", default="default", help="of torch.compile: default, reduce-overhead, max-autotune, ...; none: eager")
parser.add_argument("--loss", default="auto", choices=["auto", "liger", "torch", "ebb"], help="of llama")
for name in ("batch", "steps", "context", "layers", "width", "heads", "kv-heads", "feed-forward", "vocabulary", "side", "patch", "classes"):
    parser.add_argument(f"--{name}", type=int, default=0)
parser.add_argument("--peak", type=float, default=989, help="TFLOP/s of the GPU")
options = parser.parse_args()
on_gpu = options.device != "cpu"


def size(name, on_a_gpu, on_a_cpu):
    return getattr(options, name) or (on_a_gpu if on_gpu else on_a_cpu)


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, kv_heads, hidden):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        linear = lambda i, o: nn.Linear(i, o, bias=False)
        self.q, self.k, self.v = linear(width, width), linear(width, kv_heads * self.size), linear(width, kv_heads * self.size)
        self.o, self.gate, self.up, self.down = linear(width, width), linear(width, hidden), linear(width, hidden), linear(hidden, width)
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)

    def forward(self, x, cos, sin):
        batch, time_, _ = x.shape
        h = self.norm1(x)
        split = lambda y, n: y.view(batch, time_, n, self.size).transpose(1, 2)
        turned = lambda y: (y * cos + torch.cat((-y[..., self.size // 2:], y[..., : self.size // 2]), -1) * sin).to(y.dtype)
        q, k, v = turned(split(self.q(h), self.heads)), turned(split(self.k(h), self.kv_heads)), split(self.v(h), self.kv_heads)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, time_, -1))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, vocabulary, width, heads, kv_heads, hidden, layers, context):
        super().__init__()
        self.tokens, self.norm = nn.Embedding(vocabulary, width), nn.RMSNorm(width, eps=1e-6)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, kv_heads, hidden) for _ in range(layers))
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        d = width // heads
        angles = torch.outer(torch.arange(context).float(), 500000.0 ** (-torch.arange(0, d, 2).float() / d))
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin(), persistent=False)

    def forward(self, x):
        h = self.tokens(x).to(torch.bfloat16)
        for block in self.blocks:
            h = block(h, self.cos, self.sin)
        return self.norm(h)


def llama_loss():
    """(its name, a function of hidden states, head and labels)"""
    if options.loss in ("auto", "liger"):
        try:
            from liger_kernel.transformers.functional import liger_fused_linear_cross_entropy

            return "Liger's loss", lambda h, head, y: liger_fused_linear_cross_entropy(h, head, y)
        except ImportError:
            if options.loss == "liger":
                raise
    if options.loss == "ebb":
        import ebb.torch

        return "Ebb's loss", lambda h, head, y: ebb.torch.linear_cross_entropy(h, head, y)
    made = lambda h, head, y: F.cross_entropy(F.linear(h, head).float(), y)
    return "torch.compile's loss", made if options.mode == "none" else torch.compile(made, mode=options.mode)


class ConvNorm(nn.Sequential):
    def __init__(self, inputs, outputs, kernel, stride=1):
        super().__init__(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs))
        nn.init.kaiming_normal_(self[0].weight, mode="fan_out", nonlinearity="relu")


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.first, self.second, self.third = ConvNorm(inputs, width, 1), ConvNorm(width, width, 3, stride), ConvNorm(width, 4 * width, 1)
        self.shortcut = ConvNorm(inputs, 4 * width, 1, stride) if stride != 1 or inputs != 4 * width else nn.Identity()

    def forward(self, x):
        return F.relu(self.third(F.relu(self.second(F.relu(self.first(x))))) + self.shortcut(x))


def resnet50(width, classes):
    layers, inputs = [ConvNorm(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], width
    for count, factor in ((3, 1), (4, 2), (6, 4), (3, 8)):
        for k in range(count):
            layers.append(Bottleneck(inputs, factor * width, 2 if k == 0 and factor > 1 else 1))
            inputs = 4 * factor * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


class VitBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.projection = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v)
        x = x + self.projection(h.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class Vit(nn.Module):
    def __init__(self, side, patch, width, layers, heads, classes):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 1 + (side // patch) ** 2, width))
        self.blocks = nn.Sequential(*(VitBlock(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.class_token.expand(len(x), -1, -1), x), 1) + self.positions
        return self.head(self.norm(self.blocks(x)[:, 0]))


def timed(step, steps):
    """Seconds per step, after the steps in which kernels are compiled."""
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    warm_up = min(steps // 2, 12)
    for k in range(steps):
        loss = step()
        if k == 0:
            print(f"step   0   loss {loss.item():.4f}")
        if k + 1 == warm_up:
            wait()
            start = time.perf_counter()
    wait()
    seconds = (time.perf_counter() - start) / (steps - warm_up)
    print(f"step {steps - 1:3}   loss {loss.item():.4f}")
    return seconds, 1e-9 * torch.cuda.max_memory_allocated() if on_gpu else 0


def parts(model, decay):
    """Parameters as optimisers take them: only matrices and kernels decay."""
    return [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": decay},
            {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0}]


def train_llama():
    context, layers, width = size("context", 4096, 16), size("layers", 16, 2), size("width", 2048, 32)
    batch, vocabulary = size("batch", 4, 8), size("vocabulary", 128256, 96)
    model = Llama(vocabulary, width, size("heads", 32, 4), size("kv_heads", 8, 2), size("feed_forward", 8192, 64), layers, context)
    model = model.to(options.device)
    forward = model if options.mode == "none" else torch.compile(model, mode=options.mode)
    name, loss_of = llama_loss()
    weights = sum(p.numel() for p in model.parameters())
    print(f"{weights} parameters, {batch * context} tokens per step, {options.mode}, {name}")
    adamw = torch.optim.AdamW(parts(model, 0.1), lr=3e-4 if on_gpu else 3e-3, betas=(0.9, 0.95), fused=on_gpu)
    follows = torch.randperm(90, device=options.device)

    def step():
        x = torch.randint(0, 90, (batch, context), device=options.device)
        with torch.autocast(options.device, dtype=torch.bfloat16):
            loss = loss_of(forward(x).flatten(0, 1), model.tokens.weight.to(torch.bfloat16), follows[x].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()
        adamw.zero_grad(set_to_none=True)
        return loss.detach()

    seconds, memory = timed(step, size("steps", 30, 60))
    tokens = batch * context
    flops = (6 * weights + 6 * layers * width * context) * tokens / seconds
    print(f"{1e3 * seconds:.1f} ms per step, {tokens / seconds:.0f} tokens per second, {100 * flops / options.peak / 1e12:.1f} % MFU, "
          f"{memory:.2f} GB at most")


def train_pictures():
    side, classes, batch = size("side", 224, 32), size("classes", 1000, 10), size("batch", 256, 8)
    if options.model == "resnet50":
        model = resnet50(size("width", 64, 4), classes)
        optimizer = lambda: torch.optim.SGD(parts(model, 1e-4), lr=0.02, momentum=0.9, fused=on_gpu)
    else:
        model = Vit(side, size("patch", 16, 8), size("width", 768, 32), size("layers", 12, 2), size("heads", 12, 4), classes)
        optimizer = lambda: torch.optim.AdamW(parts(model, 0.05), lr=1e-3, fused=on_gpu)
    model = model.to(options.device, memory_format=torch.channels_last)
    optimizer = optimizer()
    pictures = torch.randn(batch, 3, side, side, device=options.device).to(memory_format=torch.channels_last)
    labels = torch.randint(0, classes, (batch,), device=options.device)
    forward = model if options.mode == "none" else torch.compile(model, mode=options.mode)
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {batch} pictures per step, {options.mode}")

    def step():
        with torch.autocast(options.device, dtype=torch.bfloat16):
            loss = F.cross_entropy(forward(pictures).float(), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    seconds, memory = timed(step, size("steps", 40, 12))
    print(f"{1e3 * seconds:.1f} ms per step, {batch / seconds:.0f} images per second, {memory:.2f} GB at most")


torch.manual_seed(1)
torch.set_float32_matmul_precision("high")
train_llama() if options.model == "llama" else train_pictures()
