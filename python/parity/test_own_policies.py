# SPDX-License-Identifier: MIT
"""Modules that call linear_log_probs, linear_loss and linear_cross_entropy themselves, trained in two processes (gloo, CPU): wrapped by
DDP, FSDP2 or FSDP1, eager and compiled, with tied embeddings, accumulation, clipping and AdamW. Steps are those of torch's formulas.

Run by run.py with pytest, in the Python that has PyTorch.
"""

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

import ebb.torch

CLASSES, WIDTH, ROWS, LENGTH, STEPS = 53, 16, 3, 9, 3
WRAPPERS = {
    "DDP": DistributedDataParallel,
    "FSDP2": fully_shard,
    "FSDP1": lambda model: FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True),
}


def log_probs(x, head, target, temperature=1.0):
    return (x @ head.T / temperature).log_softmax(-1).gather(-1, target[..., None])[..., 0]


def negated_sum(log_probs):
    return -log_probs.sum(-1)


# (by Ebb, by torch), of hidden states, head and targets
LOSSES = {
    "linear_log_probs": (
        lambda x, head, target: -ebb.torch.linear_log_probs(x, head, target, temperature=0.7).square().mean(),
        lambda x, head, target: -log_probs(x, head, target, 0.7).square().mean(),
    ),
    "linear_loss": (
        lambda x, head, target: ebb.torch.linear_loss(x, head, target, negated_sum),
        lambda x, head, target: negated_sum(log_probs(x, head, target)).mean(),
    ),
    "linear_cross_entropy": (
        lambda x, head, target: ebb.torch.linear_cross_entropy(x.flatten(0, 1), head, target.flatten()),
        lambda x, head, target: -log_probs(x, head, target).mean(),
    ),
}


class Policy(torch.nn.Module):
    def __init__(self, loss, tied):
        super().__init__()
        torch.manual_seed(0)
        self.loss = loss
        self.words, self.inner = torch.nn.Embedding(CLASSES, WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.head = torch.nn.Linear(WIDTH, CLASSES, bias=False)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, ids):
        return self.loss(torch.tanh(self.inner(self.words(ids)))[:, :-1], self.head.weight, ids[:, 1:])


def train(wrap, loss, tied, compiled, rank):
    """Losses and norms of gradients of some steps."""
    torch._dynamo.reset()
    model = wrap(Policy(loss, tied).double())
    run = torch.compile(model, backend="aot_eager") if compiled else model
    optimizer, seen = torch.optim.AdamW(model.parameters(), lr=1e-2), []
    for step in range(STEPS):
        for part in range(2):
            seed = torch.Generator().manual_seed(100 * step + 10 * part + rank)
            value = run(torch.randint(0, CLASSES, (ROWS, LENGTH), generator=seed))
            value.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        seen += [value.item(), (norm.full_tensor() if hasattr(norm, "full_tensor") else norm).item()]
        optimizer.step()
        optimizer.zero_grad()
    return torch.tensor(seen, dtype=torch.float64)


def worker(rank, meet, wrapper):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=2)
    for name, (ours, theirs) in LOSSES.items():
        for tied in (False, True):
            expected = train(WRAPPERS[wrapper], theirs, tied, False, rank)
            for compiled in (False, True):
                found = train(WRAPPERS[wrapper], ours, tied, compiled, rank)
                assert torch.allclose(found, expected, rtol=1e-9, atol=1e-9), (name, tied, compiled, found - expected)
    dist.destroy_process_group()


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_steps_are_those_of_torchs_formulas(wrapper, tmp_path):
    mp.spawn(worker, (tmp_path / "meet", wrapper), nprocs=2)
