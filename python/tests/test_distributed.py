# SPDX-License-Identifier: MIT
"""Programs of several processes, under mpirun where there is one."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import ebb

WORKER = pathlib.Path(__file__).with_name("distributed_worker.py")


def run(ranks, *words):
    launcher = ["mpirun", "--oversubscribe", "-n", str(ranks)] if ranks else []
    if ranks and os.geteuid() == 0:
        launcher.append("--allow-run-as-root")
    result = subprocess.run([*launcher, sys.executable, WORKER, *words], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_program_without_a_launcher_is_a_world_of_one():
    assert ebb.distributed.rank() == 0 and ebb.distributed.size() == 1
    x = ebb.tensor([1.0, 2.0])
    assert ebb.distributed.all_reduce(x).tolist() == [1, 2]
    assert ebb.distributed.all_gather(x).tolist() == [1, 2]
    assert ebb.distributed.gather_text("a") == ["a"] and not ebb.distributed.any(False)
    ebb.distributed.barrier()
    assert ebb.distributed.traffic()["bytes"] == 0


def test_data_parallel_gradients_are_those_of_the_batch():
    x, y = ebb.randn((10, 4)).eval(), ebb.zeros((10,), dtype="i64")
    model = ebb.nn.Linear(4, 3)
    parallel = ebb.distributed.DataParallel(shards=3)  # of 3, 3 and 4 rows
    loss, gradients = parallel.gradients(model, lambda a, b: ebb.cross_entropy(model(a), b), x, y)
    whole = ebb.cross_entropy(model(x), y)
    plain = ebb.backward(whole)
    assert abs(float(loss) - float(whole)) < 1e-6
    for variable, gradient in plain.items():
        assert float(abs(gradients[variable] - gradient).max()) < 1e-6
    with pytest.raises(ValueError, match="2 rows cannot be divided into 3 shards"):
        parallel.gradients(model, lambda a, b: ebb.cross_entropy(model(a), b), x[:2], y[:2])


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun")
def test_ranks_have_the_bits_of_one_process():
    alone = run(0)
    assert alone.startswith("True")
    assert run(2) == alone
    assert run(4) == alone
    assert run(3, "sharded") == alone


def test_an_optimizer_that_was_sharded_belongs_to_the_sharded_one():
    model = ebb.nn.Linear(3, 2)
    optimizer = ebb.optim.Sgd(lr=0.5)
    sharded = ebb.distributed.ShardedOptimizer(optimizer)
    assert sharded.lr == 0.5
    with pytest.raises(ValueError, match="belongs to a ShardedOptimizer"):
        optimizer.state()
    before = model.weight.tolist()
    gradients = ebb.backward(model(ebb.ones((4, 3))).sum())
    sharded.step(model, sharded.clip_by_norm(model, gradients, 1.0)[0])
    assert model.weight.tolist() != before
