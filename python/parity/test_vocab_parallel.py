# SPDX-License-Identifier: MIT
"""Heads whose classes are in parts on several ranks (gloo, CPU): losses and gradients are those of one rank with the whole head.

Run by run.py with pytest, in the Python that has PyTorch.
"""

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import ebb.torch

A, T, H = 4, 6, 5
OUTPUTS = ("log_probs", "entropy", "logsumexp", "log_sum_sq_probs", "mean_logits")


def inputs(classes, dtype=torch.float64):
    generator = torch.Generator().manual_seed(7)
    x, head, bias = (torch.randn(s, generator=generator, dtype=dtype) for s in ((A, T, H), (classes, H), (classes,)))
    target = torch.randint(0, classes, (A, T), generator=generator)
    target[0, 1] = target[3, 5] = -100
    return x.requires_grad_(), head.requires_grad_(), target, bias.requires_grad_()


def whole(gradients):
    return [g.full_tensor() if isinstance(g, DTensor) else g for g in gradients]


def require_same(ours, theirs):
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-11)


def shared(tensor, mesh, placements):
    return distribute_tensor(tensor.detach(), mesh, placements).requires_grad_(tensor.requires_grad)


def statistics_are_the_same(mesh, classes, placement, options):
    x, head, target, bias = inputs(classes)
    weights = torch.randn(len(OUTPUTS), A, T, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = ebb.torch.linear_log_probs(x, head, target, bias=bias, outputs=OUTPUTS, **options)
    theirs = torch.autograd.grad((torch.stack(expected) * weights).sum(), (x, head, bias))
    dx, dh, db = shared(x, mesh, [placement]), shared(head, mesh, [Shard(0)]), shared(bias, mesh, [Shard(0)])
    found = ebb.torch.linear_log_probs(dx, dh, target, bias=db, outputs=OUTPUTS, **options)
    require_same(found, expected)
    ours = torch.autograd.grad((torch.stack(found) * weights).sum(), (dx, dh, db))
    assert ours[1].placements == (Shard(0),) and ours[0].placements == (placement,)
    require_same(whole(ours), theirs)
    alone = ebb.torch.linear_log_probs(dx, dh, target, bias=db, **options)
    require_same([alone], expected[:1])


def cross_entropies_are_the_same(mesh, classes, options):
    x, head, target, bias = inputs(classes)
    expected = ebb.torch.linear_cross_entropy(x, head, target, bias=bias, **options)
    dx, dh, db = shared(x, mesh, [Replicate()]), shared(head, mesh, [Shard(0)]), shared(bias, mesh, [Shard(0)])
    spread = distribute_tensor(target, mesh, [Replicate()])
    for labels in (target, spread):
        found = ebb.torch.linear_cross_entropy(dx, dh, labels, bias=db, **options)
        require_same([found], [expected])
        ours = torch.autograd.grad(found.square().sum(), (dx, dh, db))
        require_same(whole(ours), torch.autograd.grad(expected.square().sum(), (x, head, bias), retain_graph=True))


def formulas_of_torch_are_the_same(mesh, classes):
    x, head, target, _ = inputs(classes)

    def formula(log_probs):
        return log_probs.exp().sum(-1)

    expected = ebb.torch.linear_loss(x, head, target, formula, tensors="torch")
    dx, dh = shared(x, mesh, [Shard(1)]), shared(head, mesh, [Shard(0)])
    found = ebb.torch.linear_loss(dx, dh, target, formula, tensors="torch")
    require_same([found], [expected])
    require_same(whole(torch.autograd.grad(found, (dx, dh))), torch.autograd.grad(expected, (x, head)))
    with pytest.raises(ValueError, match="linear_loss: a DTensor is in parts on several devices"):
        ebb.torch.linear_loss(dx, dh, target, formula)


def rows_may_be_in_parts_too(classes):
    """Two axes of the mesh: the batch is in parts along one, the classes along the other."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    x, head, target, _ = inputs(classes)
    expected = ebb.torch.linear_cross_entropy(x, head, target, reduction="sum")
    dx, dh = shared(x, mesh, [Shard(0), Replicate()]), shared(head, mesh, [Replicate(), Shard(0)])
    labels = distribute_tensor(target, mesh, [Shard(0), Replicate()])
    found = ebb.torch.linear_cross_entropy(dx, dh, labels, reduction="sum")
    ours = torch.autograd.grad(found, (dx, dh))
    total = found.detach().clone()
    dist.all_reduce(total, group=mesh.get_group("data"))
    require_same([total], [expected])
    require_same(whole(ours), torch.autograd.grad(expected, (x, head)))


def mistakes_are_one_sentence(mesh, classes):
    x, head, target, bias = inputs(classes)
    dx, dh, db = shared(x, mesh, [Replicate()]), shared(head, mesh, [Shard(0)]), shared(bias, mesh, [Shard(0)])
    across = shared(head, mesh, [Shard(1)])
    wrong = target.clone()
    wrong[1, 2] = classes
    for call, kind, text in (
        (lambda: ebb.torch.linear_log_probs(x, dh, target), ValueError, "the hidden states are not on its mesh; where all"),
        (lambda: ebb.torch.linear_cross_entropy(x, dh, target), ValueError, "gather the head, head.full_tensor"),
        (lambda: ebb.torch.linear_log_probs(dx, head, target), ValueError, "hidden states are a DTensor and the head is not"),
        (lambda: ebb.torch.linear_log_probs(dx, across, target), ValueError, r"placements \[Shard\(dim=1\)\] is not supported"),
        (lambda: ebb.torch.linear_log_probs(dx, dh, target, bias=bias), ValueError, "distribute it like the head"),
        (lambda: ebb.torch.linear_log_probs(dx, dh, target, outputs="argmax"), ValueError, "argmax is not available"),
        (lambda: ebb.torch.linear_log_probs(dx, dh, wrong), IndexError, rf"target\[1, 2\] = {classes} is outside \[0, {classes}\)"),
        (lambda: ebb.torch.linear_cross_entropy(dx, dh, torch.rand(A, T, classes)), ValueError, "class indices, got torch.float32"),
        (lambda: ebb.torch.mse_loss(dx, dx), ValueError, "mse_loss: a DTensor is in parts on several devices"),
    ):
        with pytest.raises(kind, match=text):
            call()


def tensor_parallel_layers_train_alike(mesh, classes):
    """A module that torch.distributed.tensor.parallel made parallel, with its hidden states in parts along the sequence."""
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(2)
            self.body = torch.nn.Linear(H, H, dtype=torch.float64)
            self.lm_head = torch.nn.Linear(H, classes, bias=False, dtype=torch.float64)

        def forward(self, x, target):
            hidden = torch.tanh(self.body(x))
            if isinstance(self.lm_head.weight, DTensor):
                hidden = DTensor.from_local(hidden, mesh, [Replicate()])
            return ebb.torch.linear_cross_entropy(hidden, self.lm_head.weight, target)

    x, _, target, _ = inputs(classes)
    plain, parallel = Model(), Model()
    parallelize_module(parallel.lm_head, mesh, ColwiseParallel())
    for model in (plain, parallel):
        model(x.detach(), target).backward()
    for a, b in zip(plain.parameters(), parallel.parameters(), strict=True):
        require_same(whole([b.grad]), [a.grad])


def worker(rank, world, meet):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=world)
    try:
        mesh = init_device_mesh("cpu", (world,))
        for classes in (12, 13, 3):  # even, uneven, a rank with one class or none
            for placement in (Replicate(), Shard(1), Shard(0)):  # the same on all ranks, sequence parallel, the batch in parts
                statistics_are_the_same(mesh, classes, placement, {})
            everything = {"temperature": 0.7, "logit_scale": 1.3, "softcap": 2.0}
            statistics_are_the_same(mesh, classes, Replicate(), everything)
        for options in (
            {},
            {"label_smoothing": 0.1, "z_loss": 1e-2, "softcap": 3.0},
            {"reduction": "sum", "weight": torch.rand(13, generator=torch.Generator().manual_seed(3), dtype=torch.float64)},
            {"reduction": "none"},
        ):
            cross_entropies_are_the_same(mesh, 13, options)
        formulas_of_torch_are_the_same(mesh, 13)
        tensor_parallel_layers_train_alike(mesh, 13)
        if world == 4:
            rows_may_be_in_parts_too(13)
        mistakes_are_one_sentence(mesh, 13)
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("world", [2, 4])
def test_heads_in_parts_are_as_one(world, tmp_path):
    mp.spawn(worker, (world, tmp_path / "meet"), nprocs=world)
