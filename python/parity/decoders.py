# SPDX-License-Identifier: MIT
"""decoders.py: ebb.torch.patch on every language model of the installed transformers, at a tiny size with random weights.

    decoders.py                    # all of them
    decoders.py llama mamba2       # some, by transformers' names of their kinds

Language models are the classes for causal language models, translation, images with text, and masked words. Each, in a process of its
own, computes the loss and gradients of several calls (CALLS) with and without the patch: they are the same to 2e-5 (or to 2e-6 in f64,
where models amplify f32's rounding), or both are errors of one type, or patch refuses the model in a ValueError, or this program ends
with 1. Classes whose tiny configuration does not compute without the patch are counted as not tried. Run by run.py.
"""

import dataclasses
import inspect
import multiprocessing
import sys
import warnings

import torch
import transformers
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.trainer_pt_utils import LabelSmoother

import ebb.torch
from ebb.torch._deferred import here

WIDTH = {name: 32 for name in "hidden_size d_model n_embd dim lru_width embed_dim projection_dim".split()}
INNER = {name: 48 for name in "intermediate_size d_ff ffn_dim decoder_ffn_dim encoder_ffn_dim hidden_dim".split()}
LAYERS = {name: 2 for name in "num_hidden_layers n_layer num_layers decoder_layers n_layers num_decoder_layers depth".split()}
HEADS = {name: 4 for name in "num_attention_heads n_head num_heads decoder_attention_heads n_heads mamba_n_heads".split()}
HEADS.update(encoder_attention_heads=4)
LENGTH = {name: 64 for name in "max_position_embeddings n_positions".split()}
EXPERTS = {name: 4 for name in "num_experts num_local_experts n_routed_experts".split()}
SMALL = {name: 8 for name in "head_dim kv_lora_rank q_lora_rank v_head_dim state_size mamba_d_state sliding_window d_kv".split()}
SMALL.update({name: 4 for name in "qk_rope_head_dim qk_nope_head_dim rope_dim rotary_dim conv_kernel time_step_rank".split()})
SMALL.update({name: 16 for name in "moe_intermediate_size shared_expert_intermediate_size mamba_d_head chunk_size".split()})
ONES = {name: 1 for name in "n_group topk_group n_groups mamba_n_groups num_shared_experts n_shared_experts encoder_layers".split()}
DROPOUT = "dropout attention_dropout resid_pdrop embd_pdrop attn_pdrop hidden_dropout activation_dropout embedding_dropout"
NO_DROPOUT = {name: 0.0 for name in [*DROPOUT.split(), "hidden_dropout_prob", "attention_probs_dropout_prob", "dropout_rate"]}
OTHERS = dict(vocab_size=211, num_key_value_heads=2, num_experts_per_tok=2, first_k_dense_replace=1, mamba_expand=2, expand=2)
OTHERS.update(pad_token_id=0, bos_token_id=1, eos_token_id=2, image_size=32, patch_size=8)
OTHERS.update(num_kv_shared_layers=0, hidden_size_per_layer_input=8, vocab_size_per_layer_input=211, mamba_d_ssm=64)
SIZES = {**WIDTH, **INNER, **LAYERS, **HEADS, **LENGTH, **EXPERTS, **SMALL, **ONES, **NO_DROPOUT, **OTHERS}
OF_KIND = dict.fromkeys("dots3_note dots3_note_text glm4_moe_lite glm_moe_dsa".split(), {"num_key_value_heads": 4})
SECONDS = 300

MAPPINGS = ("CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "MASKED_LM")


def models():
    """(kind, name of its class, mapping) of every language model."""
    found = {}
    for mapping in MAPPINGS:
        for kind, names in getattr(modeling_auto, f"MODEL_FOR_{mapping}_MAPPING_NAMES").items():
            for name in [names] if isinstance(names, str) else names:
                found.setdefault((kind, name), mapping)
    return [(kind, name, mapping) for (kind, name), mapping in sorted(found.items())]


def sizes_of(cls):
    known = set(inspect.signature(cls.__init__).parameters)
    if dataclasses.is_dataclass(cls):
        known |= {field.name for field in dataclasses.fields(cls)}
    sizes = SIZES | OF_KIND.get(cls.model_type, {})
    return {name: size for name, size in sizes.items() if cls.attribute_map.get(name, name) in known}


def config_of(kind, mapping):
    cls = CONFIG_MAPPING[kind]
    sizes = sizes_of(cls)
    if mapping == "CAUSAL_LM" and "is_decoder" in inspect.signature(cls.__init__).parameters:
        sizes["is_decoder"] = True
    if subs := getattr(cls, "sub_configs", None):  # several models in one
        default = cls()
        for name in subs:
            part = type(getattr(default, name))
            if part is not type(None):
                sizes[name] = {**sizes_of(part), "model_type": part.model_type}
    config = cls(**sizes)
    config.use_cache = False
    if getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = 0
    return config


# ---- calls: from the model, the arguments in which each differs from a plain one. The last ones differ otherwise.

ROWS, LENGTH_OF_ROWS = 2, 16


def tokens():
    return torch.randint(3, 200, (ROWS, LENGTH_OF_ROWS), generator=torch.Generator().manual_seed(5))


def masked(labels, count):
    changed = labels.clone()
    changed[0, :count] = -100
    return changed


def left_padded(model):
    attended = torch.ones(ROWS, LENGTH_OF_ROWS, dtype=torch.long)
    attended[0, :5] = 0
    return {"attention_mask": attended}


def packed(model):
    return {"position_ids": torch.cat([torch.arange(9), torch.arange(LENGTH_OF_ROWS - 9)]).repeat(ROWS, 1)}


def embedded(model):
    return {"inputs_embeds": model.get_input_embeddings()(tokens()), "input_ids": None}


def of_last_logits(model):
    return {"logits_to_keep": 9, "labels": masked(tokens(), 9)[:, -9:]}


CALLS = {
    "plain": lambda model: {},
    "counted": lambda model: {"num_items_in_batch": torch.tensor(29)},
    "left padding": left_padded,
    "packed": packed,
    "tuple": lambda model: {"return_dict": False},
    "cache": lambda model: {"use_cache": True},
    "embedded": embedded,
    "last logits": of_last_logits,
    "hidden states": lambda model: {"output_hidden_states": True},
    "no labels": lambda model: {"labels": torch.full((ROWS, LENGTH_OF_ROWS), -100)},
    "shifted": lambda model: {"shift_labels": masked(tokens().roll(-1, 1), 3)},
    "smoothed": None,
    "checkpointed": None,
    "bf16": None,
    "rows": None,
}


def loss_of(model, name):
    labels = masked(tokens(), 4)
    if name == "smoothed":  # as Trainer does
        output = model(input_ids=tokens(), num_items_in_batch=torch.tensor(29))
        return LabelSmoother(0.1)(output, labels, shift_labels=True)
    given = {"input_ids": tokens(), "labels": labels}
    if CALLS[name]:
        given |= CALLS[name](model)
    with torch.autocast("cpu", torch.bfloat16, enabled=name == "bf16"):
        output = model(**given)
    loss = output[0] if isinstance(output, tuple) else output.loss
    if name == "rows":  # somebody looks at the logits, too
        logits = output.logits
        loss = loss + 1e-2 * logits[0, -1].float().square().mean()
    return loss


def step(model, name):
    """Loss and gradients, or the type of the error."""
    model.zero_grad()
    torch.manual_seed(1)
    if name == "checkpointed":
        if not getattr(model, "supports_gradient_checkpointing", False):
            return "not there"
        model.gradient_checkpointing_enable({"use_reentrant": False})
    try:
        loss = loss_of(model, name)
        loss.backward()
    except Exception as error:
        return type(error).__name__ if "patch" not in str(error) else str(error)
    finally:
        if name == "checkpointed":
            model.gradient_checkpointing_disable()
    return {"loss": loss.detach(), **{n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}}


def distance(ours, theirs):
    if isinstance(ours, str) or isinstance(theirs, str):
        return 0.0 if ours == theirs else float("inf")
    if ours.keys() != theirs.keys():
        return float("inf")
    worst = 0.0
    for name, expected in theirs.items():
        if not torch.equal(torch.isnan(expected), torch.isnan(ours[name])):
            return float("inf")
        away = (ours[name] - expected).nan_to_num().abs().max() if expected.numel() else torch.tensor(0.0)
        size = expected.nan_to_num().abs().max().clamp_min(1e-3) if expected.numel() else 1.0
        worst = max(worst, (away / size).item())
    return worst


def distance_in_f64(model, call):
    """That of a patched model from itself without the patch; parts of models compute in f32 in any case."""
    model.double()
    ours = step(model, call)
    theirs = step(ebb.torch.unpatch(model), call)
    ebb.torch.patch(model.float())
    return distance(ours, theirs)


def attempt(kind, name, mapping, answer):
    """Sends (what happened, is it right?)."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    try:
        torch.manual_seed(0)
        model = getattr(transformers, name)(config_of(kind, mapping)).float().train()
        if sum(p.numel() for p in model.parameters()) > 5e7:
            return answer.send(("not tried: too large", True))
        with torch.no_grad():  # logits that differ, so that losses do
            for p in model.parameters():
                p.mul_(2)
        loss_of(model, "plain").backward()
    except Exception as error:
        return answer.send((f"not tried: {type(error).__name__}: {str(error)[:90]!r}", True))
    theirs = {call: step(model, call) for call in CALLS}
    try:
        ebb.torch.patch(model)
    except ValueError as error:
        return answer.send((f"refused: {error}", str(error).startswith("patch: ")))
    worst, wrong, with_logits = 0.0, [], []
    for call in CALLS:
        before = getattr(here, "fused", 0)
        ours = step(model, call)
        if getattr(here, "fused", 0) == before and not isinstance(ours, str):
            with_logits.append(call)
        found, allowed = distance(ours, theirs[call]), 2e-5
        if call == "bf16":  # the model's own code rounds its logits; ours are not rounded
            found, allowed = distance(ours, theirs["plain"]), 1e-2 + 1.5 * distance(theirs[call], theirs["plain"])
        else:
            worst = max(worst, found)
        if allowed < found < 1e-3:
            found, allowed = distance_in_f64(model, call), 2e-6
        if not found <= allowed:
            told = [x if isinstance(x, str) else "computes" for x in (theirs[call], ours)]
            wrong.append(f"; {call}: {found:.1e}" + (f" ({told[0]} without, {told[1]} with)" if told[0] != told[1] else ""))
    count = sum(not isinstance(found, str) for found in theirs.values())
    text = f"{'differs' if wrong else 'same'}: {worst:.1e}, {count} calls{''.join(wrong)}"
    answer.send((text + f"; with logits: {', '.join(with_logits)}" * bool(with_logits), not wrong))


def main():
    transformers.logging.set_verbosity_error()
    processes = multiprocessing.get_context("fork")
    counts, wrong = {}, []
    chosen = sys.argv[1:]
    for kind, name, mapping in models():
        if chosen and kind not in chosen and name not in chosen and mapping not in chosen:
            continue
        receive, send = processes.Pipe(False)
        process = processes.Process(target=attempt, args=(kind, name, mapping, send))
        process.start()
        send.close()
        try:
            text, right = receive.recv() if receive.poll(SECONDS) else ("not tried: it takes too long", True)
        except EOFError:
            text, right = "ended without an answer", False
        process.kill()
        process.join()
        print(f"{kind:24}{name:44}{text}", flush=True)
        word = text.split(":")[0]
        counts[word] = counts.get(word, 0) + 1
        wrong += [] if right else [name]
    print(f"transformers {transformers.__version__}: {', '.join(f'{n} {word}' for word, n in counts.items())}")
    return f"wrong: {', '.join(wrong)}" if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
