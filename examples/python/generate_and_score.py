# SPDX-License-Identifier: MIT
# %% [markdown]
# # A trainer's log-probabilities and the generator's
# Policy gradients divide the probability of a token by what it was when it was drawn. A generator has one token of each sequence
# at a time and a cache of keys and values; a trainer has whole sequences, in other batches, on other ranks. Where a product's bits
# depend on how many rows it has, the two differ before anything was learned. Here a small decoder generates with the
# cache, then scores what it drew: alone, in batches of different composition, and on four ranks (gloo).

# %%
import sys
import tempfile

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import ebb
import ebb.torch

WORDS, WIDTH, HEADS, LAYERS, PROMPT, LENGTH, ANSWERS = 1000, 64, 4, 2, 5, 24, 8
SIZE = WIDTH // HEADS


def weights(seed=1):
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    def layer():
        attention = {name: normal(WIDTH, WIDTH) for name in "qkvo"}
        return {**attention, "up": normal(2 * WIDTH, WIDTH), "down": normal(WIDTH, 2 * WIDTH)}

    return {
        "words": 8 * normal(WORDS, WIDTH),
        "places": normal(LENGTH, WIDTH),
        "head": 3 * normal(WORDS, WIDTH),
        "layers": [layer() for _ in range(LAYERS)],
    }


# %% One decoder for both libraries: ebb has PyTorch's names.
class Decoder:
    def __init__(self, m, dtype, head):
        self.m, self.head = m, head
        halves = dtype == "bf16"

        def to(a):
            return ebb.cast(ebb.tensor(a), dtype) if m is ebb else torch.tensor(a).to(torch.bfloat16 if halves else torch.float32)

        w = weights()
        self.words, self.places, self.w_head = to(w["words"]), to(w["places"]), to(w["head"])
        self.layers = [{n: to(a) for n, a in layer.items()} for layer in w["layers"]]
        self.attend = m.scaled_dot_product_attention if m is ebb else torch.nn.functional.scaled_dot_product_attention
        self.norm = m.rms_norm if m is ebb else torch.nn.functional.rms_norm
        self.silu = m.silu if m is ebb else torch.nn.functional.silu

    def hidden(self, tokens, first=0, cache=None):
        """[B, T, WIDTH] of tokens [B, T], which begin at position `first`; the cache has keys and values of those before."""
        m, (batch, count) = self.m, tokens.shape
        index = m.tensor(tokens)
        x = self.words[index] + self.places[first : first + count]
        for k, w in enumerate(self.layers):
            y = self.norm(x, (WIDTH,))
            q, key, value = (m.permute((y @ w[n].T).reshape(batch, count, HEADS, SIZE), (0, 2, 1, 3)) for n in "qkv")
            if cache is not None:
                before = cache.get(k)
                if before is not None:
                    key, value = m.cat([before[0], key], 2), m.cat([before[1], value], 2)
                cache[k] = (key, value)
            mixed = self.attend(q, key, value, is_causal=count > 1)
            x = x + m.permute(mixed, (0, 2, 1, 3)).reshape(batch, count, WIDTH) @ w["o"].T
            x = x + self.silu(self.norm(x, (WIDTH,)) @ w["up"].T) @ w["down"].T
        return self.norm(x, (WIDTH,))

    def log_probs(self, hidden, targets):
        """[B, T] as numpy."""
        if self.m is ebb:
            return ebb.linear_log_probs(hidden, self.w_head, ebb.tensor(targets)).numpy()
        if self.head == "ebb":
            return ebb.torch.linear_log_probs(hidden, self.w_head, torch.tensor(targets)).numpy()
        logits = (hidden @ self.w_head.T).float()
        return logits.log_softmax(-1).gather(-1, torch.tensor(targets).unsqueeze(-1)).squeeze(-1).numpy()

    def logits(self, hidden):
        last = hidden[:, -1] @ self.w_head.T
        return (ebb.cast(last, "f32") if self.m is ebb else last.float()).numpy()


def generate(decoder, prompts):
    """Tokens [A, LENGTH] and the log-probabilities they were drawn with, token by token."""
    rng, tokens, found, cache = np.random.default_rng(2), prompts, [], {}
    hidden = decoder.hidden(tokens[:, :1], 0, cache)
    for at in range(1, LENGTH):
        if at < prompts.shape[1]:
            drawn = prompts[:, at : at + 1]
        else:
            noise = rng.gumbel(size=(len(prompts), WORDS))
            drawn = (decoder.logits(hidden) + noise).argmax(-1)[:, None]
            tokens = np.concatenate([tokens, drawn], 1)
        found.append(decoder.log_probs(hidden[:, -1:], drawn))
        hidden = decoder.hidden(drawn, at, cache)
    return tokens, np.concatenate(found, 1)


def score(decoder, tokens):
    """The same log-probabilities of whole sequences."""
    return decoder.log_probs(decoder.hidden(tokens)[:, :-1], tokens[:, 1:])


# %% How many of the scores have the generator's bits
def compositions(tokens):
    for size in (1, 3, len(tokens)):
        yield f"batches of {size}", [np.arange(len(tokens))[k : k + size] for k in range(0, len(tokens), size)]
    yield "in another order", [np.random.default_rng(3).permutation(len(tokens))]
    yield "twice in one batch", [np.tile(np.arange(len(tokens)), 2)]


def report(name, decoder):
    prompts = np.random.default_rng(4).integers(0, WORDS, (ANSWERS, PROMPT))
    with torch.no_grad():
        tokens, drawn = generate(decoder, prompts)
        results = {}
        for batching, batches in compositions(tokens):
            pairs = [(score(decoder, tokens[rows]), drawn[rows]) for rows in batches]
            same = np.mean([a == b for s, d in pairs for a, b in zip(s.ravel(), d.ravel())])
            results[batching] = same, max(np.abs(s - d).max() for s, d in pairs)
    alike = min(same for same, _ in results.values())
    print(f"{name:32} same bits: {100 * alike:5.1f} % of tokens; largest difference {max(d for _, d in results.values()):.1e}")
    return alike == 1, tokens, drawn


# %% Four ranks score a part of the batch each
def worker(rank, world, meet, tokens, drawn, dtype, results):
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=world)
    decoder = Decoder(ebb, dtype, "ebb")
    mine = np.arange(len(tokens))[rank::world]
    same = torch.tensor(float((score(decoder, tokens[mine]) == drawn[mine]).all()))
    dist.all_reduce(same, op=dist.ReduceOp.MIN)
    results[rank] = bool(same)
    dist.destroy_process_group()


def main():
    ok = True
    for dtype in ("f32", "bf16"):
        same, tokens, drawn = report(f"{dtype}: Ebb", Decoder(ebb, dtype, "ebb"))
        ok &= same
        with tempfile.TemporaryDirectory() as folder, mp.Manager() as manager:
            results = manager.dict()
            mp.spawn(worker, (4, f"{folder}/meet", tokens, drawn, dtype, results), nprocs=4)
            agree = all(results.values())
        print(f"{dtype + ': Ebb, 4 ranks':32} same bits: {'all tokens' if agree else 'not all tokens'}")
        ok &= agree
        report(f"{dtype}: PyTorch, Ebb's head", Decoder(torch, dtype, "ebb"))
        report(f"{dtype}: PyTorch", Decoder(torch, dtype, "torch"))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
