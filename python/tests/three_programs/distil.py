# SPDX-License-Identifier: MIT
"""A small student learns from a teacher: soft targets at a temperature, hard ones beside them, in bf16 with f32 weights."""

import ebb
import ebb.nn as nn
import ebb.nn.functional as F
ebb.manual_seed(0)

images, labels = ebb.data.make_digits(1500, seed=1)
x_train, y_train, x_test, y_test = images[:1200], labels[:1200], images[1200:], labels[1200:]


def mlp(width):
    return nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Dropout(p=0.1), nn.Linear(width, 10))


def accuracy(model):
    model.eval()
    return (model(x_test).argmax(dim=-1) == y_test).float().mean().item()


def batches(n=64):
    order = ebb.randperm(len(x_train))
    return [(x_train[order[i:i + n]], y_train[order[i:i + n]]) for i in range(0, len(x_train), n)]


teacher = mlp(128)
optimizer = ebb.optim.AdamW(lr=2e-3)
for epoch in range(8):
    teacher.train()
    for x, y in batches():
        optimizer.step(teacher, ebb.backward(F.cross_entropy(teacher(x), y, label_smoothing=0.1)))
teacher.eval()

T, student = 3.0, mlp(16)
optimizer = ebb.optim.AdamW(lr=3e-3)
for epoch in range(12):
    student.train()
    for x, y in batches():
        soft = F.softmax(teacher(x).detach() / T, dim=-1)
        logits = student(x)
        kl = F.kl_div(F.log_softmax(logits / T, dim=-1), soft, reduction="batchmean") * T * T
        loss = 0.7 * kl + 0.3 * F.cross_entropy(logits, y)
        optimizer.step(student, ebb.backward(loss))
assert accuracy(teacher) > 0.85 and accuracy(student) > 0.8
half = ebb.nn.cast_parameters(student, "bf16")
assert abs((half(x_test.bfloat16()).argmax(-1) == y_test).float().mean().item() - accuracy(student)) < 0.03
