# SPDX-License-Identifier: MIT
"""A rank of test_distributed.py: trains a small network and prints a hash of its parameters. With the word `sharded`
the optimiser is."""

import hashlib
import sys

import numpy as np

import ebb

ebb.set_num_threads(1)
size = ebb.distributed.size()
total = float(ebb.distributed.all_reduce(ebb.full((3,), ebb.distributed.rank() + 1.0))[0])
assert total == size * (size + 1) / 2
assert ebb.distributed.any(ebb.distributed.rank() == size - 1)

ebb.manual_seed(1)
x, y = ebb.randn((96, 6)).eval(), (ebb.rand((96,)) * 3).floor().astype("i64").eval()
ebb.manual_seed(2)
model = ebb.nn.Sequential(ebb.nn.Linear(6, 8), ebb.nn.BatchNorm(8), ebb.nn.Dropout(0.1), ebb.nn.Linear(8, 3))
sharded = "sharded" in sys.argv
optimizer = ebb.optim.AdamW(lr=0.01)
if sharded:
    optimizer = ebb.distributed.ShardedOptimizer(optimizer)
parallel = ebb.distributed.DataParallel(shards=4, to_owners=sharded, overlap=sharded)
for step in range(20):
    rows = slice(step % 4 * 24, step % 4 * 24 + 24)
    loss, gradients = parallel.gradients(model, lambda a, b: ebb.cross_entropy(model(a), b), x[rows], y[rows])
    clip = (lambda g: optimizer.clip_by_norm(model, g, 0.5)) if sharded else lambda g: ebb.optim.clip_by_norm(g, 0.5)
    optimizer.step(model, clip(gradients)[0])
assert len(optimizer.state()) == 6 * 3
state = hashlib.sha256()
for name, tensor in sorted(model.state_dict().items()):
    state.update(np.ascontiguousarray(tensor.numpy()).tobytes())
texts = ebb.distributed.gather_text(state.hexdigest())
assert len(texts) == size and len(set(texts)) == 1
if ebb.distributed.rank() == 0:
    print(float(loss) < 1.2, texts[0])
sys.exit(0)
