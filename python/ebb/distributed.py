# SPDX-License-Identifier: MIT
"""Programs of several processes: `mpirun -n 4 python train.py`.

Every process is a rank and runs the same program. Open MPI is opened when the world is first asked for; a program that
no launcher started is a world of one, in which every collective returns what it was given.

parallel = ebb.distributed.DataParallel()
loss, gradients = parallel.gradients(model, lambda x, y: ebb.cross_entropy(model(x), y), x, y)
optimizer.step(model, gradients)
if ebb.distributed.rank() == 0: print(float(loss))
"""

import atexit

from . import _core
from ._core._distributed import (  # noqa: F401
    _begin_of,
    _gradients,
    _is_same,
    _means,
    _shard_seed,
    _shards,
    all_gather,
    all_reduce,
    all_to_all,
    any,
    barrier,
    broadcast,
    copy_to_ranks,
    gather_text,
    host,
    leave,
    rank,
    reduce_scatter,
    set_patience,
    size,
    sum_over_ranks,
    traffic,
)

from ._core._optim import _ShardedOptimizer

atexit.register(leave)  # while there is an interpreter to come back to


def _is_floating(x):
    return x.dtype in (_core.float16, _core.bfloat16, _core.float32, _core.float64)


def _wide(x):
    return x.astype(_core.float32) if x.dtype in (_core.float16, _core.bfloat16) else x


class DataParallel:
    """Ranks that hold the same model and compute the gradients of parts of a batch.

    A batch has a fixed number of shards, whoever computes them; each is computed by itself, and gradients are added as a
    binary tree over the shards. So results have the same bits for any number of ranks up to the number of shards: 4
    unless given, or the number of ranks rounded up to a power of two if that is more. See docs/distributed.md.
    """

    def __init__(self, shards=0, bucket_bytes=8 << 20, to_owners=False, overlap=False):
        """to_owners: gradients go only to the ranks that own their parameters in a ShardedOptimizer. overlap: they
        travel while those of earlier layers are computed."""
        self.shards, self.first_shard, self.last_shard = _shards(shards)
        self._bucket_bytes, self._to_owners, self._overlap = bucket_bytes, to_owners, overlap

    def gradients(self, model, loss, *columns):
        """(loss, gradients) of the batch, the same on every rank. The columns are the whole batch, on every rank;
        loss(*rows) is called with the rows of a shard and gives their mean. Buffers of the model that change (running
        statistics) become the mean over the shards."""
        from .optim import _Taken

        rows = columns[0].shape[0]
        if rows < self.shards:
            raise ValueError(f"DataParallel: a batch of {rows} rows cannot be divided into {self.shards} shards")
        before = _Taken(model)
        seed, operation = _core.random_state()
        of_shards, variables, own_buffers = [], None, None
        for shard in range(self.first_shard, self.last_shard):
            for _, _, tensor, assign in before.kept:
                assign(tensor)
            if self.shards > 1:
                _core.set_random_state(_shard_seed(seed, operation, shard), 0)
            start, stop = (_begin_of(rows, self.shards, s) for s in (shard, shard + 1))
            value = loss(*(c[start:stop] for c in columns))
            found = _core.backward(value)
            used = [tensor for _, tensor in before.parameters() if tensor in found]
            variables = variables or used
            after = _Taken(model)
            changed = [not _is_same(new, old) for (_, old), (_, new) in zip(before.buffers(), after.buffers())]
            own_buffers = own_buffers or [t for _, t in after.buffers()]
            weight = (stop - start) * self.shards / rows
            numbers = [_wide(_core.stop_gradient(value))] + [_wide(found[v]) for v in used]
            if weight != 1:
                numbers = [n * weight for n in numbers]
            for (_, t), moves in zip(after.buffers(), changed):
                if moves and _is_floating(t):
                    numbers.append(_wide(_core.stop_gradient(t)))
            if shard + 1 < self.last_shard:  # the last one is computed with the exchange
                _core.eval(numbers)
            of_shards.append(numbers)
        if self.shards > 1:
            _core.set_random_state(seed, operation + 1)
        owned = [t for _, t in before.parameters()] if self._to_owners else []
        sums = _means(of_shards, self.shards, self._bucket_bytes, variables, owned, self._overlap)
        averages = iter(sums[1 + len(variables) :])
        for (_, _, old, assign), own, moves in zip(before.kept, own_buffers, changed):
            assign(old if not moves else next(averages).astype(old.dtype) if _is_floating(old) else own)
        return sums[0], _gradients(list(zip(variables, sums[1 : 1 + len(variables)])))


class ShardedOptimizer(_ShardedOptimizer):
    """An optimiser whose state exists once in the world (ZeRO stage 1): every parameter has an owner, a rank that keeps
    its moments, updates it and sends the new value to the others. A step has the bits of the unsharded one.

    optimizer = ebb.distributed.ShardedOptimizer(ebb.optim.AdamW(lr=3e-4))
    optimizer.step(model, gradients)

    The gradients are those of DataParallel, with `to_owners` or without. The optimiser it is made of belongs to it."""

    def step(self, model, gradients):
        """Gives the model new parameters, on all ranks, which all call it."""
        from .optim import _gradients_of, _Taken

        taken = _Taken(model)
        taken.put_back(*self._step(taken.parameters(), taken.buffers(), _gradients_of(taken, gradients)))

    def clip_by_norm(self, model, gradients, max_norm):
        """(gradients, norm) as ebb.optim.clip_by_norm, of gradients that only their owners have, too. All ranks call it."""
        from .optim import _gradients_of, _Taken

        taken = _Taken(model)
        return self._clip_by_norm(taken.parameters(), _gradients_of(taken, gradients), max_norm)
