"""ebb.torch.patch: causal language models of Hugging Face's transformers compute their loss without holding the logits."""

import functools
import inspect

import torch

# What is known about an architecture: hidden states go through lm_head and, where the configuration names one, a softcap,
# and nothing else happens to the logits. The names are the configuration's model_type.
KNOWN = frozenset("gpt2 llama qwen2 qwen3 mistral gemma gemma2 gemma3_text".split())
_OF_THE_HEAD = ("labels", "logits_to_keep", "num_items_in_batch", "shift_labels", "ignore_index", "return_dict")


def _parts(model, body, head, softcap):
    """What the loss is computed from, given or found: the model without its head, the head, the softcap."""
    name, config = type(model).__name__, getattr(model, "config", None)
    kind = getattr(config, "model_type", None)
    if body is not None and head is not None:
        return body, head, softcap or 0.0
    if kind not in KNOWN:
        raise ValueError(
            f"patch: {name} (model_type {kind!r}) is not known; if its logits are head(body(...)), with nothing but a "
            "softcap behind it, pass these: patch(model, body=model.model, head=model.lm_head, softcap=0.0)"
        )
    found = getattr(model, model.base_model_prefix, None), model.get_output_embeddings()
    if found[0] is None or found[0] is model or not isinstance(found[1], torch.nn.Linear):
        raise ValueError(f"patch: {name} is not a causal language model with a linear head; pass body= and head=")
    cap = getattr(config, "final_logit_softcapping", None) if softcap is None else softcap
    return body or found[0], head or found[1], cap or 0.0


def patch(model, *, body=None, head=None, softcap=None):
    """The model itself, which from now on computes its training loss by linear_cross_entropy: the logits, tokens times
    vocabulary, are never in memory. Training loops and Trainer stay as they are; unpatch undoes it.

    For causal language models of transformers: GPT-2, Llama, Qwen 2 and 3, Mistral, Gemma 1 to 3 (text), with tied and
    untied heads. For others pass the model without its head, the head (a torch.nn.Linear) and the softcap, if there is
    one. Outputs of a training step have no logits (None); without labels, or after model.eval(), the model does what it
    always did.
    """
    from . import torch as losses

    if "_ebb_unpatched" in vars(model):
        raise ValueError("patch: the model is patched already; unpatch it first")
    body, head, softcap = _parts(model, body, head, softcap)
    before = vars(model).get("forward")  # somebody else's wrapper, if there is one
    original = model.forward
    signature = inspect.signature(original)
    loss_of = losses._wide_linear_cross_entropy

    @functools.wraps(original)
    def forward(*args, **kwargs):
        given = signature.bind(*args, **kwargs).arguments
        given = {**given.pop("kwargs", {}), **given}
        labels, shifted = given.get("labels"), given.get("shift_labels")
        if not model.training or (labels is None and shifted is None) or _keeps_some(given.get("logits_to_keep")):
            return original(*args, **kwargs)
        options = {name: given.pop(name, None) for name in _OF_THE_HEAD}
        ignored = -100 if options["ignore_index"] is None else options["ignore_index"]
        output = body(**given)
        hidden = output.last_hidden_state
        if shifted is None:  # tokens before n predict n
            shifted = torch.nn.functional.pad(labels, (0, 1), value=ignored)[..., 1:]
        count = options["num_items_in_batch"]
        loss = loss_of(
            hidden,
            head.weight,
            shifted.contiguous(),
            head.bias,
            softcap=softcap,
            ignore_index=ignored,
            reduction="mean" if count is None else "sum",
        )
        if count is not None:
            loss = loss / (count.to(loss.device) if torch.is_tensor(count) else count)
        return _output(output, loss, options["return_dict"], getattr(model, "config", None))

    model.forward = forward
    model._ebb_unpatched = (before,)
    return model


def _keeps_some(logits_to_keep):
    return logits_to_keep is not None and (torch.is_tensor(logits_to_keep) or logits_to_keep != 0)


def _output(output, loss, return_dict, config):
    from transformers.modeling_outputs import CausalLMOutputWithPast

    made = CausalLMOutputWithPast(
        loss=loss,
        logits=None,
        past_key_values=getattr(output, "past_key_values", None),
        hidden_states=getattr(output, "hidden_states", None),
        attentions=getattr(output, "attentions", None),
    )
    wanted = getattr(config, "return_dict", True) if return_dict is None else return_dict
    return made if wanted else made.to_tuple()


def unpatch(model):
    """Undoes patch: the model's own forward is back."""
    if "_ebb_unpatched" not in vars(model):
        raise ValueError("unpatch: the model is not patched")
    (before,) = vars(model).pop("_ebb_unpatched")
    if before is None:
        del model.forward
    else:
        model.forward = before
    return model
