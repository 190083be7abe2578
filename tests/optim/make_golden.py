#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes golden/*.txt: what torch.optim does, step by step, for the tests to follow.

The tests read the files and need no PyTorch. Run this only when a case is added:  python3 make_golden.py
LARS, LAMB and Lion are not in torch.optim and are written here from their papers.
"""
import math
import pathlib

import torch
import torch.nn.functional as F
from torch.optim import lr_scheduler

here = pathlib.Path(__file__).parent / "golden"
here.mkdir(exist_ok=True)
STEPS = 20


def words(values, form="%.17g"):
    return " ".join(form % v for v in values)


# ---- trajectories: a small problem with curvature, and the parameters after every step ------------------------------

def problem_loss(w, b):
    x = torch.arange(12, dtype=w.dtype).reshape(4, 3) / 6 - 1
    y = torch.tensor([0.5, -0.25, 1.0, 0.0], dtype=w.dtype)
    return ((torch.tanh(x @ w) + b - y) ** 2).sum() + 0.05 * (w ** 4).sum()


def start(dtype=torch.float64):
    return [torch.tensor([0.3, -0.8, 0.5], dtype=dtype, requires_grad=True),
            torch.tensor([0.1], dtype=dtype, requires_grad=True)]


class Paper:
    """An optimiser that torch lacks: update(p, g, state, t) returns the new p."""

    def __init__(self, params, update):
        self.params, self.update, self.t = params, update, 0
        self.state = [{} for _ in params]

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    def step(self):
        self.t += 1
        with torch.no_grad():
            for p, s in zip(self.params, self.state):
                p.copy_(self.update(p, p.grad, s, self.t))


def lars(lr=0.1, momentum=0.9, weight_decay=0.0, trust=1e-3):
    def update(p, g, s, t):
        local = trust * p.norm() / (g.norm() + weight_decay * p.norm())
        s["b"] = momentum * s.get("b", torch.zeros_like(p)) + lr * local * (g + weight_decay * p)
        return p - s["b"]
    return update


def lamb(lr=1e-3, b1=0.9, b2=0.999, eps=1e-6, weight_decay=1e-2):
    def update(p, g, s, t):
        s["m"] = b1 * s.get("m", torch.zeros_like(p)) + (1 - b1) * g
        s["v"] = b2 * s.get("v", torch.zeros_like(p)) + (1 - b2) * g * g
        u = s["m"] / (1 - b1 ** t) / (torch.sqrt(s["v"] / (1 - b2 ** t)) + eps) + weight_decay * p
        return p - lr * (p.norm() / u.norm()) * u
    return update


def lion(lr=1e-4, b1=0.9, b2=0.99, weight_decay=0.0):
    def update(p, g, s, t):
        m = s.get("m", torch.zeros_like(p))
        s["m"] = b2 * m + (1 - b2) * g
        return p - lr * (torch.sign(b1 * m + (1 - b1) * g) + weight_decay * p)
    return update


O = torch.optim
trajectories = {
    "sgd": lambda p: O.SGD(p, lr=0.05),
    "sgd_momentum": lambda p: O.SGD(p, lr=0.05, momentum=0.9),
    "sgd_dampening": lambda p: O.SGD(p, lr=0.05, momentum=0.9, dampening=0.3, weight_decay=0.1),
    "sgd_nesterov": lambda p: O.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: O.Adam(p, lr=0.05),
    "adam_defaults": lambda p: O.Adam(p),
    "adam_decay_amsgrad": lambda p: O.Adam(p, lr=0.05, betas=(0.8, 0.9), weight_decay=0.1, amsgrad=True),
    "adamw": lambda p: O.AdamW(p, lr=0.05),
    "adamw_decay": lambda p: O.AdamW(p, lr=0.05, weight_decay=0.2, amsgrad=True),
    "radam": lambda p: O.RAdam(p, lr=0.05),
    "radam_decay": lambda p: O.RAdam(p, lr=0.05, weight_decay=0.1),
    "radam_decoupled": lambda p: O.RAdam(p, lr=0.05, weight_decay=0.1, decoupled_weight_decay=True),
    "rmsprop": lambda p: O.RMSprop(p, lr=0.02),
    "rmsprop_all": lambda p: O.RMSprop(p, lr=0.01, alpha=0.9, momentum=0.8, centered=True, weight_decay=0.05),
    "adagrad": lambda p: O.Adagrad(p, lr=0.1),
    "adagrad_all": lambda p: O.Adagrad(p, lr=0.1, lr_decay=0.05, weight_decay=0.1, initial_accumulator_value=0.2),
    "lars": lambda p: Paper(p, lars(lr=10.0, weight_decay=0.01)),
    "lamb": lambda p: Paper(p, lamb(lr=0.02)),
    "lion": lambda p: Paper(p, lion(lr=0.02)),
    "lion_decay": lambda p: Paper(p, lion(lr=0.02, b1=0.95, b2=0.98, weight_decay=0.1)),
}

with open(here / "trajectories.txt", "w") as out:
    for name, make in trajectories.items():
        params = start()
        optimizer = make(params)
        for _ in range(STEPS):
            optimizer.zero_grad()
            problem_loss(*params).backward()
            optimizer.step()
            print(name, words([*params[0].tolist(), *params[1].tolist()]), file=out)

# ---- schedules: the rate of every step ------------------------------------------------------------------------------

def rates(make, steps, lr=0.1, key="lr"):
    optimizer = O.SGD([torch.zeros(1, requires_grad=True)], lr=lr, momentum=0.9)
    schedule = make(optimizer)
    out = []
    for _ in range(steps):
        out.append(optimizer.param_groups[0][key])
        optimizer.step()
        schedule.step()
    return out


S = lr_scheduler
plateau_metrics = [1.0, 0.9, 0.91, 0.92, 0.93, 0.5, 0.51, 0.4999999, 0.52, 0.53, 0.6, 0.6, 0.3, 0.31, 0.32, 0.33, 0.34]


def plateau(**options):
    optimizer = O.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    schedule = S.ReduceLROnPlateau(optimizer, **options)
    out = []
    for m in plateau_metrics:
        schedule.step(m)
        out.append(optimizer.param_groups[0]["lr"])
    return out


schedules = {
    "step": rates(lambda o: S.StepLR(o, 3, 0.5), 12),
    "multistep": rates(lambda o: S.MultiStepLR(o, [2, 7, 7], 0.3), 12),
    "exponential": rates(lambda o: S.ExponentialLR(o, 0.9), 12),
    "linear": rates(lambda o: S.LinearLR(o), 12),
    "linear_down": rates(lambda o: S.LinearLR(o, 1.0, 0.1, 8), 12),
    "cosine": rates(lambda o: S.CosineAnnealingLR(o, 11, 0.01), 12),
    "warm_up": rates(lambda o: S.SequentialLR(
        o, [S.LinearLR(o, 0.25, 1.0, 4), S.CosineAnnealingLR(o, 10)], [4]), 12),
    "one_cycle": rates(lambda o: S.OneCycleLR(o, 0.1, total_steps=20), 20),
    "one_cycle_momentum": rates(lambda o: S.OneCycleLR(o, 0.1, total_steps=20), 20, key="momentum"),
    "one_cycle_linear3": rates(lambda o: S.OneCycleLR(
        o, 0.1, total_steps=21, anneal_strategy="linear", three_phase=True, final_div_factor=100), 21),
    "plateau_metrics": plateau_metrics,
    "plateau": plateau(patience=2, factor=0.5),
    "plateau_cooldown": plateau(patience=1, factor=0.1, cooldown=2, min_lr=0.002, threshold_mode="abs", threshold=0.01),
    "plateau_max": plateau(mode="max", patience=3),
}
with open(here / "schedules.txt", "w") as out:
    for name, values in schedules.items():
        print(name, words(values), file=out)

# ---- training curves: a network of two layers in f32 for 100 steps, from formulas both sides can compute ------------

def waves(n, *, phase, scale):
    i = torch.arange(n, dtype=torch.float64)
    return (torch.sin(i * 12.9898 + phase) * scale).float()


def network():
    return [waves(8 * 32, phase=0.1, scale=0.5).reshape(32, 8), waves(32, phase=0.2, scale=0.1),
            waves(32 * 4, phase=0.3, scale=0.3).reshape(4, 32), waves(4, phase=0.4, scale=0.1)]


x = waves(64 * 8, phase=0.5, scale=1.0).reshape(64, 8)
y = (torch.arange(64) * 7 + torch.arange(64) // 5) % 4
curves = {
    "sgd": lambda p: O.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: O.Adam(p, lr=0.01),
    "adamw_clipped": lambda p: O.AdamW(p, lr=0.01),
}
with open(here / "curves.txt", "w") as out:
    for name, make in curves.items():
        p = [t.clone().requires_grad_() for t in network()]
        optimizer = make(p)
        losses = []
        for _ in range(100):
            optimizer.zero_grad()
            loss = F.cross_entropy(F.linear(F.relu(F.linear(x, p[0], p[1])), p[2], p[3]), y)
            loss.backward()
            if "clipped" in name:
                torch.nn.utils.clip_grad_norm_(p, 0.1)
            optimizer.step()
            losses.append(loss.item())
        print(name, words(losses, "%.9g"), file=out)
