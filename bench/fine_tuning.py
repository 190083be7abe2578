# SPDX-License-Identifier: MIT
"""Loss curves of a small Llama that PyTorch trained and transformers wrote, and that both sides then fine-tune.

    python3 bench/fine_tuning.py                 # f32 and bf16 beside PyTorch, and FP8 beside bf16: a table of Markdown
    python3 bench/fine_tuning.py --steps 20      # for a look

It has read the first half of this repository's pages and is tuned to the second, as bytes. PyTorch's bf16 is autocast with f32 weights, Ebb's is cast_parameters. The mean of --every steps is a row.
"""

import argparse
import functools
import pathlib
import tempfile

import numpy as np
import torch
import transformers

import ebb

BATCH, LENGTH = 4, 64


@functools.cache
def halves_of_pages():
    pages = sorted((pathlib.Path(__file__).parent.parent / "docs").glob("*.md"))
    return np.array_split(np.frombuffer(b"".join(page.read_bytes() for page in pages), np.uint8).astype(np.int64), 2)


def rows_of_text(steps, half=1):
    """Batches of bytes and the bytes that follow: the same for all contenders."""
    text, draw = halves_of_pages()[half], np.random.default_rng(half)
    for _ in range(steps):
        starts = draw.integers(0, len(text) - LENGTH - 1, BATCH)
        rows = np.stack([text[s : s + LENGTH + 1] for s in starts])
        yield rows[:, :-1], rows[:, 1:]


def written_by_transformers(folder, steps=300):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=256, hidden_size=64, intermediate_size=176, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=LENGTH, tie_word_embeddings=True)
    model = transformers.LlamaForCausalLM(config)
    train_in_torch(model, rows_of_text(steps, 0), lambda step: 2e-3 * min(1.0, (step + 1) / 50))
    model.save_pretrained(folder)


def rate(step, steps, highest=3e-4, warmup=20):
    return highest * min(1.0, (step + 1) / warmup) * (1 - step / steps)


def train_in_torch(model, rows, rate_at, half=False):
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    losses = []
    for step, (x, y) in enumerate(rows):
        optimizer.param_groups[0]["lr"] = rate_at(step)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            logits = model(input_ids=torch.from_numpy(x)).logits
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), torch.from_numpy(y).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def curve_of_torch(folder, steps, half):
    model = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return train_in_torch(model, rows_of_text(steps), lambda step: rate(step, steps), half)


def curve_of_ebb(folder, steps, half, fp8=False):
    model = ebb.models.load_llama(str(folder))
    model.fp8 = fp8
    optimizer = ebb.optim.AdamW(weight_decay=0.0)
    losses = []
    for step, (x, y) in enumerate(rows_of_text(steps)):
        optimizer.lr = rate(step, steps)
        used = ebb.nn.cast_parameters(model, ebb.bf16) if half else model
        loss = used.loss(ebb.asarray(x), ebb.asarray(y))
        optimizer.step(model, ebb.backward(loss))
        losses.append(float(loss))
    return np.array(losses)


def curves(steps):
    with tempfile.TemporaryDirectory() as folder:
        written_by_transformers(folder)
        return {
            "PyTorch f32": curve_of_torch(folder, steps, False),
            "Ebb f32": curve_of_ebb(folder, steps, False),
            "PyTorch bf16": curve_of_torch(folder, steps, True),
            "Ebb bf16": curve_of_ebb(folder, steps, True),
            "Ebb FP8": curve_of_ebb(folder, steps, True, fp8=True),
        }


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--every", type=int, default=25)
    given = options.parse_args()
    found = curves(given.steps)
    print("| steps | " + " | ".join(found) + " |\n|---|" + "---|" * len(found))
    for first in range(0, given.steps, given.every):
        last = min(first + given.every, given.steps)
        print(f"| {first + 1} to {last} | " + " | ".join(f"{c[first:last].mean():.4f}" for c in found.values()) + " |")
    for kind in ("f32", "bf16"):
        apart = np.abs(found[f"Ebb {kind}"] - found[f"PyTorch {kind}"]).max()
        print(f"Largest difference of a step, {kind}: {apart:.1e}")
    print(f"Largest difference of a step, FP8 and bf16: {np.abs(found['Ebb FP8'] - found['Ebb bf16']).max():.1e}")


if __name__ == "__main__":
    main()
