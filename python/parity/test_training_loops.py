# SPDX-License-Identifier: MIT
"""Patched models in loops that others wrote: accelerate, Lightning and Trainer's evaluation take the same steps as without the patch.

Run by run.py with pytest, in the Python that has PyTorch, transformers and accelerate; Lightning is needed for a part of it.
"""

import pytest
import torch
import transformers
from patched_models import fused, make, tokens

import ebb.torch

STEPS = 3


def batches():
    return [ids for ids in tokens(2 * STEPS).split(2)]


def with_accelerate(model, folder, mixed_precision="no"):
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(True)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=1, mixed_precision=mixed_precision)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    data = torch.utils.data.DataLoader(torch.cat(batches()), batch_size=2)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    for ids in data:
        with accelerator.accumulate(model):
            accelerator.backward(model(input_ids=ids, labels=ids).loss)
            optimizer.step()
            optimizer.zero_grad()
    return accelerator.unwrap_model(model, keep_fp32_wrapper=False)


def with_bf16(model, folder):
    return with_accelerate(model, folder, "bf16")


def with_lightning(model, folder):
    lightning = pytest.importorskip("lightning", reason="Lightning is not installed")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model

        def training_step(self, ids, index):
            return self.model(input_ids=ids, labels=ids).loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-2)

    quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer = lightning.Trainer(accelerator="cpu", devices=1, max_epochs=1, default_root_dir=folder, **quiet)
    trainer.fit(Module(), torch.utils.data.DataLoader(torch.cat(batches()), batch_size=2))
    return model.train()


@pytest.mark.parametrize("loop", [with_accelerate, with_bf16, with_lightning])
def test_loops_of_others_take_the_same_steps(loop, tmp_path):
    theirs = loop(make(), tmp_path)
    model = ebb.torch.patch(make())
    before = fused()
    ours = loop(model, tmp_path)
    assert fused() == before + STEPS
    for (name, found), expected in zip(ours.named_parameters(), theirs.parameters()):
        tolerance = (2e-2 if loop is with_bf16 else 1e-5) * max(expected.abs().max().item(), 1e-3)
        assert (found - expected).abs().max().item() <= tolerance, name


@pytest.mark.parametrize("options", [{}, {"prediction_loss_only": True}, {"label_smoothing_factor": 0.1}], ids=str)
def test_trainer_evaluates_as_without_the_patch(options, tmp_path):
    rows = [{"input_ids": row.tolist(), "labels": row.tolist()} for row in torch.cat(batches())]
    losses = []
    for patched in (False, True):
        model = make()
        if patched:
            ebb.torch.patch(model)
        arguments = transformers.TrainingArguments(
            str(tmp_path), per_device_eval_batch_size=2, report_to=[], use_cpu=True, disable_tqdm=True, **options
        )
        losses.append(transformers.Trainer(model=model, args=arguments, eval_dataset=rows).evaluate()["eval_loss"])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


RESUMED = [{"label_smoothing_factor": 0.1}, {"gradient_checkpointing": True, "max_grad_norm": 0.5, "optim": "adafactor"}]
RESUMED += [{"torch_compile": True, "torch_compile_backend": "aot_eager"}]


@pytest.mark.parametrize("options", RESUMED, ids=lambda options: next(iter(options)))
def test_trainer_goes_on_from_a_checkpoint_as_without_the_patch(options, tmp_path):
    """Accumulation over rows of different lengths, an evaluation and a checkpoint after two of four steps."""
    rows = [{"input_ids": row, "labels": row} for row in (ids.tolist()[: 9 + k % 5] for k, ids in enumerate(tokens(24)))]

    def padded(batch):
        longest = max(len(row["input_ids"]) for row in batch)
        pad = {"input_ids": 0, "labels": -100}
        return {name: torch.tensor([row[name] + [value] * (longest - len(row[name])) for row in batch]) for name, value in pad.items()}

    def trained(patched):
        torch._dynamo.reset()
        for steps in (2, 4):
            model = make()
            if patched:
                ebb.torch.patch(model)
            arguments = transformers.TrainingArguments(
                str(tmp_path / f"{patched}"),
                per_device_train_batch_size=2,
                gradient_accumulation_steps=3,
                max_steps=steps,
                logging_steps=1,
                eval_strategy="steps",
                eval_steps=2,
                save_steps=2,
                learning_rate=1e-2,
                prediction_loss_only=True,
                report_to=[],
                use_cpu=True,
                disable_tqdm=True,
                **options,
            )
            trainer = transformers.Trainer(model, arguments, padded, train_dataset=rows, eval_dataset=rows[:5])
            trainer.train(resume_from_checkpoint=steps == 4)
        logs = [entry[key] for entry in trainer.state.log_history for key in ("loss", "grad_norm", "eval_loss") if key in entry]
        return logs, dict(trainer.model.named_parameters())

    (expected, theirs), (found, ours) = trained(False), trained(True)
    assert found == pytest.approx(expected, rel=1e-4) and len(found) == 10
    for name, weight in theirs.items():
        assert (ours[name] - weight).abs().max().item() <= 1e-4 * weight.abs().max().item(), name
