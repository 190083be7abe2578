# SPDX-License-Identifier: MIT
# %% [markdown]
# # Reading digits
# A network learns to read digits that a wobbly pen has drawn. Run it as a program, or cell by cell in an editor that knows `# %%`.

# %%
import sys

import ebb
from ebb import nn, optim

quick = "--quick" in sys.argv  # for the tests: few pictures
train_count, test_count, epochs = (2000, 500, 2) if quick else (20000, 2000, 5)

ebb.manual_seed(0)
images, labels = ebb.data.make_digits(train_count + test_count)  # [n, 784] in [0, 1], and what they show
test_images, test_labels = images[train_count:], labels[train_count:]
images, labels = images[:train_count], labels[:train_count]

# %% A model is a list of layers; its parameters are named "0.weight", "0.bias", "2.weight", ...
model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 10))
print(f"{model.parameter_count():,} numbers to learn")

# %% backward() gives the gradients as a value; step() gives the model new parameters.
loader = ebb.data.DataLoader([images, labels], batch_size=64, seed=1)
optimizer = optim.AdamW(decays="matrices")
schedule = optim.warm_up(optim.cosine_schedule(2e-3, steps=epochs * len(loader)), 20)
step = 0
for epoch in range(epochs):
    total = 0.0
    for x, y in loader:
        optimizer.lr = schedule(step)
        loss = ebb.cross_entropy(model(x), y, label_smoothing=0.05)
        optimizer.step(model, ebb.backward(loss))
        total += float(loss)
        step += 1
    model.eval()
    right = (model(test_images).argmax(1) == test_labels).cast("f32").mean()
    model.train()
    print(f"epoch {epoch + 1}  training loss {total / len(loader):.4f}  test accuracy {100 * float(right):.2f} %")

# %% Which digits are hard? The loss of every one of them, largest first.
model.eval()
losses = ebb.cross_entropy(model(test_images), test_labels, reduction="none")
worst, at = losses.topk(3)
for value, i in zip(worst.tolist(), at.tolist()):
    print(f"a {int(test_labels[i])} read as {int(model(test_images[i:i + 1]).argmax())}, loss {value:.2f}")

assert float(right) > (0.8 if quick else 0.97)
