# SPDX-License-Identifier: MIT
"""decoders.py: ebb.torch.patch on every causal language model of the installed transformers, at a tiny size with random weights.

    decoders.py                    # all of them
    decoders.py llama mamba2       # some, by transformers' names of their kinds

Each, in a process of its own, computes the loss and gradients of a batch with and without the patch: they are the same to 2e-5, or
patch refuses the model in a ValueError, or this program ends with 1. Classes whose tiny configuration does not compute without the
patch are counted as not tried. Run by run.py.
"""

import dataclasses
import inspect
import multiprocessing
import sys
import warnings

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as NAMES

import ebb.torch

WIDTH = {name: 32 for name in "hidden_size d_model n_embd dim lru_width".split()}
INNER = {name: 48 for name in "intermediate_size d_ff ffn_dim decoder_ffn_dim hidden_dim".split()}
LAYERS = {name: 2 for name in "num_hidden_layers n_layer num_layers decoder_layers n_layers".split()}
HEADS = {name: 4 for name in "num_attention_heads n_head num_heads decoder_attention_heads n_heads mamba_n_heads".split()}
LENGTH = {name: 64 for name in "max_position_embeddings n_positions".split()}
EXPERTS = {name: 4 for name in "num_experts num_local_experts n_routed_experts".split()}
SMALL = {name: 8 for name in "head_dim kv_lora_rank q_lora_rank v_head_dim state_size mamba_d_state sliding_window".split()}
SMALL.update({name: 4 for name in "qk_rope_head_dim qk_nope_head_dim rope_dim rotary_dim conv_kernel time_step_rank".split()})
SMALL.update({name: 16 for name in "moe_intermediate_size shared_expert_intermediate_size mamba_d_head chunk_size".split()})
ONES = {name: 1 for name in "n_group topk_group n_groups mamba_n_groups num_shared_experts n_shared_experts encoder_layers".split()}
DROPOUT = "dropout attention_dropout resid_pdrop embd_pdrop attn_pdrop hidden_dropout activation_dropout embedding_dropout"
NO_DROPOUT = {name: 0.0 for name in [*DROPOUT.split(), "hidden_dropout_prob", "attention_probs_dropout_prob"]}
OTHERS = dict(vocab_size=211, num_key_value_heads=2, num_experts_per_tok=2, first_k_dense_replace=1, mamba_expand=2, expand=2)
OTHERS.update(pad_token_id=0, bos_token_id=1, eos_token_id=2, is_decoder=True)
SIZES = {**WIDTH, **INNER, **LAYERS, **HEADS, **LENGTH, **EXPERTS, **SMALL, **ONES, **NO_DROPOUT, **OTHERS}
SECONDS = 120


def config_of(kind):
    cls = CONFIG_MAPPING[kind]
    known = set(inspect.signature(cls.__init__).parameters)
    if dataclasses.is_dataclass(cls):
        known |= {field.name for field in dataclasses.fields(cls)}
    config = cls(**{name: size for name, size in SIZES.items() if cls.attribute_map.get(name, name) in known})
    config.use_cache = False
    return config


def step(model, tokens, labels):
    model.zero_grad()
    torch.manual_seed(1)
    loss = model(input_ids=tokens, labels=labels).loss
    loss.backward()
    return {"loss": loss.detach(), **{name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}}


def distance(ours, theirs):
    if ours.keys() != theirs.keys():
        return float("inf")
    return max(((ours[k] - theirs[k]).abs().max() / theirs[k].abs().max().clamp_min(1e-3)).item() for k in theirs)


def attempt(kind, answer):
    """Sends (what happened, is it right?)."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    tokens = torch.randint(3, 200, (2, 16), generator=torch.Generator().manual_seed(5))
    labels = tokens.clone()
    labels[0, :4] = -100
    name = NAMES[kind] if isinstance(NAMES[kind], str) else NAMES[kind][0]
    try:
        torch.manual_seed(0)
        model = getattr(transformers, name)(config_of(kind)).float().train()
        with torch.no_grad():  # logits that differ, so that losses do
            for p in model.parameters():
                p.mul_(2)
        theirs = step(model, tokens, labels)
    except Exception as error:
        return answer.send((f"not tried: {type(error).__name__}", True))
    try:
        ebb.torch.patch(model)
    except ValueError as error:
        return answer.send((f"refused: {error}", str(error).startswith("patch: ")))
    found = distance(step(model, tokens, labels), theirs)
    answer.send((f"{'same' if found < 2e-5 else 'differs'}: {found:.1e}", found < 2e-5))


def main():
    transformers.logging.set_verbosity_error()
    processes = multiprocessing.get_context("fork")
    counts, wrong = {}, []
    for kind in sys.argv[1:] or sorted(NAMES):
        if getattr(CONFIG_MAPPING[kind], "sub_configs", None):  # several models in one
            continue
        receive, send = processes.Pipe(False)
        process = processes.Process(target=attempt, args=(kind, send))
        process.start()
        send.close()
        try:
            text, right = receive.recv() if receive.poll(SECONDS) else ("not tried: it takes too long", True)
        except EOFError:
            text, right = "ended without an answer", False
        process.kill()
        process.join()
        print(f"{kind:28}{text}", flush=True)
        word = text.split(":")[0]
        counts[word] = counts.get(word, 0) + 1
        wrong += [] if right else [kind]
    print(f"transformers {transformers.__version__}: {', '.join(f'{n} {word}' for word, n in counts.items())}")
    return f"wrong: {', '.join(wrong)}" if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
