# SPDX-License-Identifier: MIT
"""matrix.py: what ebb.torch.patch does to the gradients of small models, for what people train with.

Every cell of {plain, tied, LoRA, LoRA on the head, QLoRA with a quantised head} × {one process, DDP, FSDP2, ZeRO-3} × {1, 4 steps
of accumulation} × {eager, compiled} trains a step with and without the patch: gradients are the same to 1e-5, or the patch raises,
or this program ends with 1. On the CPU, in two processes (gloo), compiled by torch.compile with backend="aot_eager".

    matrix.py                                     # the versions that are installed
    matrix.py --also PLACE ... --write PAGE       # and those in other places; a page of it
    matrix.py --keep FOLDER --write PAGE          # cells are kept there and not run again; the page has all that other Pythons kept, too

A place is a folder (pip install --target FOLDER --no-deps) or the Python of another virtual environment, which transformers 4.57
needs: its tokenizers, huggingface_hub and kernels are others. Compiled cells take most of the time and come last; --eager leaves
them out, and --keep lets another call add them.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

ADAPTERS = {"plain": None, "tied": None, "LoRA": ["q_proj", "v_proj"], "LoRA on the head": ["q_proj", "lm_head"]}
MODELS = [*ADAPTERS, "QLoRA, quantised head"]
STRATEGIES = ["one process", "DDP", "FSDP2", "ZeRO-3"]
WAYS = [(accumulation, compiled) for compiled in (False, True) for accumulation in (1, 4)]
PACKAGES = ["torch", "transformers", "peft", "trl", "accelerate"]
OPTIONAL = ["bitsandbytes", "deepspeed", "tokenizers", "huggingface_hub"]
WORLD = 2


def versions():
    found = {}
    for name in PACKAGES + OPTIONAL:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


# ---- one cell


def make(kind):
    import torch
    import transformers

    torch.manual_seed(3)
    small = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2)
    config = transformers.LlamaConfig(
        **small, vocab_size=211, max_position_embeddings=64, tie_word_embeddings=kind == "tied", pad_token_id=0
    )
    model = transformers.LlamaForCausalLM(config).train()
    with torch.no_grad():  # logits that differ, so that losses do
        for p in model.parameters():
            p.mul_(3)
    if kind not in ADAPTERS:
        model.lm_head = quantised(model.lm_head)
        adapters = ["q_proj"]
    else:
        adapters = ADAPTERS[kind]
    if adapters:
        import peft

        torch.manual_seed(4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = peft.get_peft_model(model, peft.LoraConfig(target_modules=adapters, r=4, task_type="CAUSAL_LM")).train()
        torch.manual_seed(6)
        with torch.no_grad():  # an adapter begins as nothing
            for p in model.parameters():
                if p.requires_grad:
                    p.add_(torch.randn_like(p), alpha=0.1)
    return model


def quantised(head):
    import bitsandbytes as bnb

    made = bnb.nn.Linear4bit(head.in_features, head.out_features, bias=False)
    made.weight = bnb.nn.Params4bit(head.weight.detach(), requires_grad=False)
    return made.to(head.weight.device)  # which quantises it


def wrapped(strategy, model):
    if strategy == "DDP":
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(model)
    if strategy == "FSDP2":
        from torch.distributed.fsdp import fully_shard

        return fully_shard(model)
    return model


def gradients(strategy, model, accumulation, compiled):
    """Losses and gradients, as whole tensors, of one step."""
    import torch
    import torch.distributed as dist

    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    if strategy == "ZeRO-3":
        try:
            return with_deepspeed(model, accumulation, compiled)
        finally:
            torch.nn.functional.linear = torch._C._nn.linear  # which DeepSpeed replaced
    model = wrapped(strategy, model)
    run = torch.compile(model, backend="aot_eager") if compiled else model
    losses = []
    for k in range(accumulation):
        loss = run(input_ids=(ids := batch(k * world + rank, accumulation * world)), labels=ids).loss
        (loss / accumulation).backward()
        losses.append(loss.item())
    found = {}
    for name, p in model.named_parameters():
        if p.grad is not None:
            found[name] = (p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad).clone()
    return losses, found


def batch(number, count):
    import torch

    ids = torch.randint(1, 200, (2 * count, 17), generator=torch.Generator().manual_seed(5))
    return ids[2 * number : 2 * number + 2]


def with_deepspeed(model, accumulation, compiled):
    import deepspeed
    import torch
    import torch.distributed as dist

    config = {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": accumulation,
        "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
        "zero_allow_untested_optimizer": True,
    }
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=1e-3)
    engine, *_ = deepspeed.initialize(model=model, config=config, model_parameters=trained, optimizer=optimizer)
    if compiled:
        engine.compile(backend="aot_eager")
    losses, found = [], {}
    for k in range(accumulation):
        ids = batch(k * dist.get_world_size() + dist.get_rank(), accumulation * dist.get_world_size())
        loss = engine(input_ids=ids, labels=ids).loss
        engine.backward(loss)
        losses.append(loss.item())
    for name, p in engine.module.named_parameters():
        if p.requires_grad:
            found[name] = deepspeed.utils.safe_get_full_grad(p).clone()
    return losses, found


def cell(kind, strategy, accumulation, compiled):
    """'same', 'refused: ...', 'not tried: ...', or what is wrong."""
    import torch

    import ebb.torch
    from ebb.torch._deferred import here

    torch._dynamo.reset()
    if kind not in ADAPTERS:  # which has to be refused before anything else
        try:
            ebb.torch.patch(make(kind))
            return "WRONG: a quantised head was patched"
        except ImportError as error:
            return f"not tried: {error.name or error} is missing"
        except ValueError as error:
            return f"refused: {first_sentence(error)}"
    try:
        theirs = gradients(strategy, make(kind), accumulation, compiled)
    except ImportError as error:
        return f"not tried: {error.name or error} is missing"
    except Exception as error:  # the cell does not exist without the patch either
        return f"not tried: without the patch, {first_sentence(error)}"
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            here.fused = 0
            model = make(kind)
            ours = gradients(strategy, ebb.torch.patch(model), accumulation, compiled)
    except Exception as error:
        refused = isinstance(error, (ValueError, RuntimeError)) and "patch: " in str(error)
        return f"{'refused' if refused else 'WRONG'}: {first_sentence(error)}"
    difference = max((abs(a - b) / abs(b) for a, b in zip(ours[0], theirs[0])), default=0)
    if ours[1].keys() != theirs[1].keys():
        return f"WRONG: gradients of {sorted(ours[1].keys() ^ theirs[1].keys())[:2]} on one side only"
    for name, gradient in theirs[1].items():
        if gradient.numel():
            scale = max(gradient.abs().max().item(), 1e-3)
            difference = max(difference, (ours[1][name] - gradient).abs().max().item() / scale)
    if difference > 1e-5:
        return f"WRONG: gradients differ by {difference:.1e}"
    if any("computed its loss from all its logits" in str(w.message) for w in caught):
        return "same, with all logits in memory"
    return "same"


def trl_cell():
    import ebb.torch

    try:
        ebb.torch.patch_trl()
        ebb.torch.unpatch_trl()
        return "works"
    except (ImportError, ValueError) as error:
        return f"refused: {first_sentence(error)}"


def first_sentence(error):
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0].split('; ')[0] if text else ''}"


# ---- all cells of the versions at hand


def names_of(strategy, compiled):
    """(name, model, accumulation) of its eager or compiled cells."""
    for kind in MODELS:
        for accumulation in [n for n, way in WAYS if way == compiled]:
            way = f"{'compiled' if compiled else 'eager'}, accumulation {accumulation}"
            yield f"{kind} | {strategy} | {way}", kind, accumulation


def tree():
    """The commit that is checked out here."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude", "*"]
    run = subprocess.run(command, capture_output=True, text=True)
    return run.stdout.strip() or "an unknown commit"


def run_strategy(strategy, compiled, out, writes=True):
    """Adds the cells that are not in the file yet, one at a time."""
    table, commit = json.loads(Path(out).read_text()), tree()
    for name, kind, accumulation in names_of(strategy, compiled):
        if name not in table["cells"]:
            table["cells"][name] = worst(cell(kind, strategy, accumulation, compiled))
            table.setdefault("trees", {})[name] = commit
            if writes:
                write(out, table)


def worst(text):
    """What the rank says for which the cell came out worst."""
    import torch.distributed as dist

    if not dist.is_initialized():
        return text
    texts = [None] * dist.get_world_size()
    dist.all_gather_object(texts, text)
    order = ["WRONG", "refused", "not tried"]
    return min(texts, key=lambda t: order.index(t.split(":")[0]) if t.split(":")[0] in order else len(order))


def write(out, table):
    whole = Path(f"{out}.part")
    whole.write_text(json.dumps(table, indent=1))
    whole.replace(out)


def worker(rank, meet, strategy, compiled, out):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD), DS_ACCELERATOR="cpu")
    # A rank may have to wait for one that compiles; one that waits for nobody is an error.
    patience = datetime.timedelta(minutes=30)
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=WORLD, timeout=patience)
    table = Path(out).read_text()
    mine = out if rank == 0 else f"{meet}.{rank}"
    if rank:
        Path(mine).write_text(table)
    dist.barrier()  # all have read what is known
    run_strategy(strategy, compiled, mine, writes=rank == 0)
    dist.destroy_process_group()


def run_cells(out, eager):
    if not Path(out).exists():
        write(out, {"versions": versions(), "cells": {}})
    for compiled in (False,) if eager else (False, True):
        for strategy in STRATEGIES:
            table = json.loads(Path(out).read_text())
            names = [name for name, *_ in names_of(strategy, compiled)]
            if all(name in table["cells"] for name in names):
                continue
            if strategy == "one process":
                run_strategy(strategy, compiled, out)
            elif strategy == "ZeRO-3" and "deepspeed" not in versions():
                table["cells"].update(dict.fromkeys(names, "not tried: deepspeed is missing"))
                write(out, table)
            else:
                run_ranks(strategy, compiled, names, out)
        table = json.loads(Path(out).read_text())
        if "trl" not in table:
            write(out, {**table, "trl": trl_cell()})


def run_ranks(strategy, compiled, names, out):
    """The cells of a strategy for several processes. One that ends them is wrong, and the others come after it."""
    import torch.multiprocessing as mp

    while missing := [name for name in names if name not in json.loads(Path(out).read_text())["cells"]]:
        try:
            with tempfile.TemporaryDirectory() as folder:
                mp.spawn(worker, (f"{folder}/meet", strategy, compiled, out), nprocs=WORLD)
        except Exception as error:  # of a process: killed, or an error outside of a cell
            print(error, file=sys.stderr)
            table = json.loads(Path(out).read_text())
            at = next((name for name in missing if name not in table["cells"]), None)
            if at is not None:
                lines = [line for line in str(error).splitlines() if line.strip()]
                table["cells"][at] = f"WRONG: its processes ended: {lines[-1] if lines else type(error).__name__}"
                write(out, table)


def cells_with(place, keep, eager):
    """The file in the folder `keep` with the results of the packages in this place: a folder whose packages come before the
    installed ones, or another Python. None where that came to no end.
    """
    python = place if place and Path(place).is_file() else sys.executable
    paths = [str(place)] if place and python is not place else []
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]))
    program = [python, __file__, "--cells", str(keep), *["--eager"] * eager]
    run = subprocess.run(program, env=environment, capture_output=True, text=True)
    if run.returncode:
        print(f"{place or 'the installed versions'}: {run.stderr[-3000:]}")
        return None
    return Path([line for line in run.stdout.splitlines() if line.endswith(".json")][-1])


def number_of(version):
    return [int(part) for part in version.split("+")[0].split(".") if part.isdigit()]


# ---- the page


def where_run(table):
    """A sentence that says on which commits the cells ran."""
    ways = {}
    for strategy in STRATEGIES:
        for compiled in (False, True):
            found = {table.get("trees", {}).get(name) for name, *_ in names_of(strategy, compiled) if name in table["cells"]}
            if found:
                commits = " and ".join(sorted(commit or "an unknown commit" for commit in found))
                ways.setdefault(commits, []).append(f"{strategy} ({'compiled' if compiled else 'eager'})")
    return " ".join(f"Run at {commits}: {', '.join(cells)}." for commits, cells in ways.items())


def page(tables):
    lines = [
        "# What `ebb.torch.patch` works with",
        "",
        f"Made by `python/parity/matrix.py` on {datetime.date.today()}; `make parity` runs it, too. Small Llama models train one step with and",
        "without the patch, on the CPU, in two processes (gloo) but for the first column; compiled by",
        "`torch.compile(backend=\"aot_eager\")`. \"same\": loss and all gradients are those of the unpatched model to 1e-5; in eager cells that",
        "is without the logits in memory, or a note says otherwise. A cell that differs would be an error of the program.",
    ]
    notes = []

    def mark(text):
        if text == "same":
            return "same"
        if text not in notes:
            notes.append(text)
        return f"({notes.index(text) + 1})"

    for table in tables:
        lines += ["", "## " + ", ".join(f"{name} {version}" for name, version in table["versions"].items()), "", where_run(table), ""]
        lines += ["| model | way | " + " | ".join(STRATEGIES) + " |", "|---" * (len(STRATEGIES) + 2) + "|"]
        for kind in MODELS:
            for accumulation, compiled in WAYS:
                way = f"{'compiled' if compiled else 'eager'}, accumulation {accumulation}"
                found = [mark(table["cells"].get(f"{kind} | {strategy} | {way}", "not run")) for strategy in STRATEGIES]
                lines.append(f"| {kind} | {way} | " + " | ".join(found) + " |")
        lines += ["", f"`patch_trl`: {table['trl']}"]
    lines += [""] + [f"({k + 1}) {text}" + ("" if k == len(notes) - 1 else "\n") for k, text in enumerate(notes)]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--also", nargs="*", default=[], metavar="PLACE")
    parser.add_argument("--write", metavar="PAGE")
    parser.add_argument("--keep", metavar="FOLDER")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--cells", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cells:
        out = Path(options.cells) / ("-".join(f"{versions()[name]}" for name in PACKAGES) + ".json")
        run_cells(str(out), options.eager)
        print(out)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        keep = Path(options.keep or scratch)
        keep.mkdir(parents=True, exist_ok=True)
        made = [cells_with(place, keep, options.eager) for place in [None, *options.also]]
        tables = [table for file in keep.glob("*.json") if "trl" in (table := json.loads(file.read_text()))]
    tables.sort(key=lambda table: [number_of(table["versions"][name]) for name in ("transformers", "torch")], reverse=True)
    print(f"{len(set(made) - {None})} of {len(tables)} tables were made or looked at now")
    wrong = made.count(None)
    for table in tables:
        print(", ".join(f"{name} {version}" for name, version in table["versions"].items()))
        counts = {}
        for name, text in table["cells"].items():
            kind = text.split(":")[0]
            counts[kind] = counts.get(kind, 0) + 1
            if text.startswith("WRONG"):
                wrong += 1
                print(f"  {name}: {text}")
        print("  " + ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())))
    if options.write:
        Path(options.write).write_text(page(tables))
    print(f"{wrong} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
