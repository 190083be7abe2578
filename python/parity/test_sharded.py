# SPDX-License-Identifier: MIT
"""Patched models in several processes (gloo, CPU): DDP, FSDP2 and FSDP1 train as without the patch, or say why not.

Run by run.py with pytest, in the Python that has PyTorch and transformers.
"""

import os

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import transformers
from patched_models import ADAPTERS, adapted, fused, make, tokens
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import ebb.torch


def ddp(model):
    return DistributedDataParallel(model)


def fsdp2(model):
    return fully_shard(model)


def fsdp2_layers(model):
    for layer in model.model.layers:
        fully_shard(layer)
    return fully_shard(model)


def fsdp2_head(model, **options):
    fully_shard(model.lm_head, **options)
    return fsdp2_layers(model)


def fsdp2_kept_head(model):
    return fsdp2_head(model, reshard_after_forward=False)


def fsdp2_mixed_head(model):
    policy = MixedPrecisionPolicy(param_dtype=torch.float64, reduce_dtype=torch.float64)  # of which all digits can be compared
    fully_shard(model.lm_head, mp_policy=policy)
    return fsdp2_layers(model)


def fsdp2_group(model):
    fully_shard([model.model.norm, model.lm_head])
    return fsdp2_layers(model)


def fsdp1(model):
    return FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)


def tensor_parallel(model):
    """The classes of the head in parts; all ranks have the same batch."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return parallelize_module(model, mesh, {"lm_head": ColwiseParallel(output_layouts=Replicate())})


def as_it_is(model):
    return model


def gradients(wrapper, model, accumulation):
    """Loss and gradients of a step, as whole tensors."""
    model = wrapper(model)
    rank = 0 if wrapper in (tensor_parallel, as_it_is) else dist.get_rank()
    losses = []
    for k in range(accumulation):
        ids = tokens(2 * accumulation * dist.get_world_size())[2 * (k * dist.get_world_size() + rank) :][:2]
        torch.manual_seed(3)
        loss = model(input_ids=ids, labels=ids).loss
        (loss / accumulation).backward()
        losses.append(loss.item())
    found = {}
    for name, p in model.named_parameters():
        if p.grad is not None:
            grad = p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad
            found[name] = grad.clone()
    return losses, found


def worker(rank, world, meet, wrapper, kind, accumulation, refused):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=world)
    try:
        results = []
        for patched in (False, True):
            tied = kind == "tied"
            model = adapted(ADAPTERS[kind][1](), False) if kind in ADAPTERS else make(tie_word_embeddings=tied)
            if patched:
                ebb.torch.patch(model)
            before = fused()
            if patched and refused:
                with pytest.raises(RuntimeError, match=refused):
                    gradients(wrapper, model, accumulation)
                return
            results.append(gradients(wrapper, model, accumulation))
            assert fused() == before + (accumulation if patched else 0)
        (plain, theirs), (losses, ours) = results
        assert losses == pytest.approx(plain, rel=1e-5)
        assert ours.keys() == theirs.keys() and ours
        for name, gradient in theirs.items():
            scale = max(gradient.abs().max().item(), 1e-3) if gradient.numel() else 1
            assert gradient.numel() == 0 or (ours[name] - gradient).abs().max().item() <= 1e-5 * scale, name
    finally:
        dist.destroy_process_group()


CASES = [
    (ddp, "plain", 1, None),
    (ddp, "tied", 4, None),
    (ddp, "lora on the head", 1, None),
    (fsdp2, "plain", 1, None),
    (fsdp2, "tied", 4, None),
    (fsdp2_layers, "plain", 4, None),
    (fsdp2_kept_head, "plain", 1, None),
    (fsdp2_head, "plain", 4, None),
    (fsdp2_mixed_head, "plain", 1, None),
    (fsdp2_group, "plain", 1, "the weight of the head was freed before the loss .*reshard_after_forward=False"),
    (fsdp1, "plain", 1, None),
]


def patched_last_worker(rank, world, meet):
    """FSDP2 changes the class of a model and no more, so that it can be patched afterwards; wrappers cannot."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=world)
    try:
        for wrapper in (fsdp2, fsdp2_layers, fsdp2_head):
            plain, theirs = gradients(wrapper, make(), 2)
            model = ebb.torch.patch(wrapper(make()))
            before = fused()
            losses, ours = gradients(lambda model: model, model, 2)
            assert fused() == before + 2 and losses == pytest.approx(plain, rel=1e-5) and ours.keys() == theirs.keys()
            for name, gradient in theirs.items():
                scale = max(gradient.abs().max().item(), 1e-3) if gradient.numel() else 1
                assert gradient.numel() == 0 or (ours[name] - gradient).abs().max().item() <= 1e-5 * scale, name
        for wrapper in (ddp, fsdp1):
            with pytest.raises(ValueError, match=r"wraps a model; patch that model \(\.module\) before it is wrapped"):
                ebb.torch.patch(wrapper(make()))
    finally:
        dist.destroy_process_group()


def test_shards_can_be_patched_last(tmp_path):
    mp.spawn(patched_last_worker, (2, tmp_path / "meet"), nprocs=2)


def tensor_parallel_worker(rank, world, meet):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=world)
    try:
        theirs = gradients(tensor_parallel, make(), 1)
        before = fused()
        patched_first = gradients(tensor_parallel, ebb.torch.patch(make()), 1)
        patched_last = gradients(as_it_is, ebb.torch.patch(tensor_parallel(make())), 1)
        assert fused() >= before + 2
        for losses, ours in (patched_first, patched_last):
            assert losses == pytest.approx(theirs[0], rel=1e-5)
            for name, gradient in theirs[1].items():
                scale = max(gradient.abs().max().item(), 1e-3)
                assert (ours[name] - gradient).abs().max().item() <= 1e-5 * scale, name
        model = ebb.torch.patch(tensor_parallel(make()))
        ids = tokens(2)
        output = model(input_ids=ids, labels=ids)
        plain = tensor_parallel(make())(input_ids=ids)
        torch.testing.assert_close(output.logits.value(), plain.logits)
    finally:
        dist.destroy_process_group()


def planned(folder, plan):
    """The model in this folder, distributed by transformers."""
    from transformers.distributed import DistributedConfig

    config = DistributedConfig(tp_plan=plan, tp_size=dist.get_world_size())
    return transformers.LlamaForCausalLM.from_pretrained(folder, distributed_config=config).train()


def tp_plan_worker(rank, world, meet, folder):
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=world)
    try:
        model, ids = planned(folder, "auto"), tokens(2)
        theirs = gradients(as_it_is, model, 2)
        logits = model(input_ids=ids).logits
        forward = vars(model.lm_head)["forward"]
        model.zero_grad()
        patched, before = ebb.torch.patch(model), fused()
        losses, ours = gradients(as_it_is, patched, 2)
        assert fused() == before + 2 and vars(model.lm_head)["forward"] is forward
        assert losses == pytest.approx(theirs[0], rel=1e-5) and ours.keys() == theirs[1].keys()
        for name, gradient in theirs[1].items():
            scale = max(gradient.abs().max().item(), 1e-3)
            assert (ours[name] - gradient).abs().max().item() <= 1e-5 * scale, name
        torch.testing.assert_close(model(input_ids=ids, labels=ids).logits.value(), logits)
        with pytest.raises(ValueError, match=r"the head of LlamaForCausalLM is in parts, \[Shard\(dim=1\)\], .*colwise_gather_output"):
            ebb.torch.patch(planned(folder, {"lm_head": "rowwise_split_input"}))
    finally:
        dist.destroy_process_group()


def test_a_head_by_tp_plan_trains_as_without_the_patch(tmp_path):
    pytest.importorskip("transformers.distributed.tensor_parallel", reason="transformers 5.21 and later distribute by DTensors")
    make().save_pretrained(tmp_path / "model")
    mp.spawn(tp_plan_worker, (2, tmp_path / "meet", tmp_path / "model"), nprocs=2)


@pytest.mark.parametrize("world", [2, 4])
def test_a_tensor_parallel_head_trains_as_without_the_patch(world, tmp_path):
    mp.spawn(tensor_parallel_worker, (world, tmp_path / "meet"), nprocs=world)


@pytest.mark.parametrize("wrapper, kind, accumulation, refused", CASES)
def test_shards_train_as_without_the_patch(wrapper, kind, accumulation, refused, tmp_path):
    mp.spawn(worker, (2, tmp_path / "meet", wrapper, kind, accumulation, refused), nprocs=2)
