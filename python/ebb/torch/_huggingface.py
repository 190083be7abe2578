# SPDX-License-Identifier: MIT
"""ebb.torch.patch: language models of Hugging Face's transformers compute their loss without holding the logits.

The model's own forward runs. While it does, its head returns logits that are not computed (_deferred_logits.py), and the
cross-entropy of these is linear_cross_entropy. So scales, softcaps, router losses, adapters, hooks and whatever else a model
does on the way stay its own. Nothing of the model is remembered here: a patched model is one with another class, and its head
is looked up in every call; copies, replaced heads and adapters follow from that.
"""

import contextlib
import functools
import inspect
import warnings

import torch

from . import _causal_calls
from ._deferred import Deferred, here
from ._deferred_logits import LINEAR, HiddenStates
from ._sharded_heads import deferring, is_partitioned, parameter_of


def _defer(module, args):
    """The head's forward pre-hook: while a patched model computes a loss, the head's product is deferred. FSDP has gathered
    the weight by now. One that is still in parts is tensor-parallel: the hidden states are on its mesh, too, or the layer is one
    of _sharded_heads.py, or what the module does with them is its own affair. So is what a function in place of
    torch.nn.functional.linear does.
    """
    if not getattr(here, "active", False) or not args or not isinstance(args[0], torch.Tensor):
        return None
    if module._backward_hooks or module._backward_pre_hooks:  # which see the gradients of logits
        return None
    linear = _linear_of(module)
    known = any(layer is linear for layer in getattr(here, "sharded", ()))
    weight = parameter_of(linear, "weight")
    usual = torch.nn.functional.linear is LINEAR and not is_partitioned(weight) and _is_sharded(weight) == _is_sharded(args[0])
    return (HiddenStates(args[0]), *args[1:]) if known or usual else None


def _class_of(x):
    return f"{type(x).__module__}.{type(x).__qualname__}"


def _head_of(model):
    path = vars(model).get("_ebb_head")
    return model.get_submodule(path) if path else model.get_output_embeddings()


def _linear_of(head):
    """The linear layer inside of what PEFT made of a head."""
    while type(head).__module__.startswith("peft."):
        inner = getattr(head, "base_layer", None)
        head = getattr(head, "original_module", None) if inner is None else inner
    return head


def _require_linear(name, head):
    """A product with a weight in memory: that of torch.nn.Linear, or of one with an adapter."""
    linear = _linear_of(head)
    kind = type(linear)
    if not isinstance(linear, torch.nn.Linear) or kind.forward is not torch.nn.Linear.forward:
        raise ValueError(
            f"patch: the head of {name} is a {_class_of(linear)}, not a torch.nn.Linear; only heads that multiply by a "
            "weight in memory can be patched (quantise the model without its head)"
        )
    weight = parameter_of(linear, "weight")
    if type(weight) not in (torch.Tensor, torch.nn.Parameter) and not _is_sharded(weight):
        raise ValueError(f"patch: the weight of the head of {name} is a {_class_of(weight)}, not an ordinary tensor")


def _is_sharded(weight):
    """Is it a DTensor? FSDP2 gathers it for the forward pass, tensor parallelism does not."""
    return type(weight).__name__ == "DTensor" or (hasattr(weight, "data") and type(weight.data).__name__ == "DTensor")


def _leave(module, args):
    """The forward pre-hook of a head that is left alone."""


def _is_hooked(module):
    return any(hook is _defer or hook is _leave for hook in module._forward_pre_hooks.values())


def _hook(head):
    """The head and the linear layer inside of it: an adapter may change the hidden states first (OFT, IA³)."""
    linear = _linear_of(head)
    if not _is_hooked(linear):
        linear.register_forward_pre_hook(_defer)
    if not _is_hooked(head):
        handle = head.register_forward_pre_hook(_defer)
        if not torch.compiler.is_compiling() and not _keeps_gradients(head, linear):
            handle.remove()
            head.register_forward_pre_hook(_leave)


def _keeps_gradients(head, linear):
    """Do gradients go through an adapter to deferred hidden states as to tensors? An autograd.Function sees none (C³A's)."""
    weight = parameter_of(linear, "weight")
    if weight.is_meta or is_partitioned(weight) or _is_sharded(weight) or not weight.numel():
        return True
    x = torch.linspace(-1, 1, 2 * weight.shape[1], dtype=weight.dtype, device=weight.device).reshape(1, 2, -1).requires_grad_()

    def gradient(active):
        before, here.active = getattr(here, "active", False), active
        try:
            with torch.enable_grad(), torch.random.fork_rng([weight.device] if weight.is_cuda else []):
                torch.manual_seed(0)
                y = head(x)
                y = y.value() if isinstance(y, Deferred) else y
                return torch.autograd.grad(y.float().square().sum(), x)[0]
        finally:
            here.active = before

    try:
        plain = gradient(False)
    except Exception:  # it takes other hidden states than these
        return True
    try:
        return torch.allclose(gradient(True), plain, rtol=1e-2, atol=1e-2 * plain.abs().max().item())
    except RuntimeError:
        return False


def _is_last(head):
    hooks = head._forward_pre_hooks
    return hooks[next(reversed(hooks))] is _defer


def _hook_last(head):
    """Hooks that others registered since (tensor parallelism distributes hidden states in one) come first."""
    hooks = head._forward_pre_hooks
    for key in [key for key, hook in hooks.items() if hook is _defer]:
        hooks.move_to_end(key)


def _computes_loss_itself(kwargs):
    """Does the caller, who counts the labels and keeps them, make a loss of the logits? Trainer does, for label smoothing and
    compute_loss_func. Wrappers for several processes look for tensors among the outputs, and there would be none.
    """
    several = torch.distributed.is_available() and torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1
    return kwargs.get("num_items_in_batch") is not None and not torch.compiler.is_compiling() and not several


@functools.cache
def _patched(cls):
    """The class of patched models of this class, with the same name and signature."""
    signature = inspect.signature(cls.forward)
    names = [name for name in signature.parameters if name != "self"]
    cached = _causal_calls.cache_class()

    def argument(name, args, kwargs):
        at = names.index(name) if name in names else len(args)
        return args[at] if at < len(args) else kwargs.get(name)

    def with_argument(name, value, args, kwargs):
        at = names.index(name)
        return ((*args[:at], value, *args[at + 1 :]), kwargs) if at < len(args) else (args, {**kwargs, name: value})

    def forward(self, *args, **kwargs):
        has_labels = argument("labels", args, kwargs) is not None
        asked = has_labels or kwargs.get("shift_labels") is not None
        skip = None if "skip_logits" in names else kwargs.pop("skip_logits", None)  # Liger's, which Trainer evaluates with
        wanted = self.training or getattr(here, "always", False) if skip is None else skip
        deferred = asked or (skip is None and _computes_loss_itself(kwargs))
        # Somebody's wrapper may still call this after unpatch.
        if not wanted or not deferred or not isinstance(self, patched) or torch.jit.is_tracing():
            return cls.forward(self, *args, **kwargs)
        head = _head_of(self)
        if not _is_hooked(head):  # the first call, or the head is a new one
            _require_linear(cls.__name__, head)
            _hook(head)
        compiling = torch.compiler.is_compiling()
        if not _is_last(head):
            if compiling:  # hooks cannot be moved while they are traced
                return cls.forward(self, *args, **kwargs)
            _hook_last(head)
        before, fused = getattr(here, "active", False), 0 if compiling else getattr(here, "fused", 0)
        rounds_before = getattr(here, "rounds", ())
        here.active, here.rounds = True, vars(self).get("_ebb_rounds", ())
        gathering = contextlib.nullcontext() if compiling else deferring(head)
        cache = _causal_calls.cache_for(self, cached, lambda name: argument(name, args, kwargs)) if compiling else None
        try:
            if cache is not None:
                args, kwargs = with_argument("past_key_values", cache, args, kwargs)
            with gathering:
                output = cls.forward(self, *args, **kwargs)
        finally:
            here.active, here.rounds = before, rounds_before
        if cache is not None:
            output = _causal_calls.without(output, cache)
        if asked and _has_loss(output, has_labels) and not compiling and here.__dict__.get("fused", 0) == fused:
            warnings.warn(
                f"patch: {cls.__name__} computed its loss from all its logits; something between its head "
                f"({_class_of(head)}) and its loss needs them",
                stacklevel=2,
            )
        return _without_logits(output) if skip or getattr(self, "_is_replica", False) else output

    # No __wrapped__: accelerate follows it to find the forward that it wrapped itself.
    forward.__signature__, forward.__doc__ = signature, cls.forward.__doc__

    def reduce(self, protocol):
        made = cls.__reduce_ex__(self, protocol)
        return (_rebuilt, (cls,), *made[2:]) if type(self) is patched else made

    members = {"forward": forward, "__reduce_ex__": reduce, "_ebb_original": cls, "__doc__": cls.__doc__}
    patched = type(cls.__name__, (cls,), members)
    patched.__module__, patched.__qualname__ = cls.__module__, cls.__qualname__
    return patched


def _rebuilt(cls):
    """An empty model of a patched class, for pickling and copying."""
    patched = _patched(cls)
    return patched.__new__(patched)


def _has_loss(output, has_labels):
    """Models that are given shift_labels alone may leave the loss to their caller."""
    return has_labels if isinstance(output, tuple) else getattr(output, "loss", None) is not None


def _without_logits(output):
    """For DataParallel, which gathers outputs and knows tensors only, and for skip_logits."""
    for key, value in list(output.items()) if isinstance(output, dict) else ():
        if isinstance(value, Deferred):
            output[key] = None
    return tuple(None if isinstance(x, Deferred) else x for x in output) if isinstance(output, tuple) else output


def _bare(function, model):
    """The model inside of PEFT's; wrappers of other kinds are refused."""
    if type(model).__module__.startswith("peft.") and hasattr(model, "get_base_model"):
        return model.get_base_model()
    inner = next((name for name in ("module", "_orig_mod") if isinstance(getattr(model, name, None), torch.nn.Module)), None)
    if inner is not None and not hasattr(type(model), "get_output_embeddings"):
        raise ValueError(f"{function}: {_class_of(model)} wraps a model; {function} that model (.{inner}) before it is wrapped")
    return model


def _is_patched(model):
    return any("_ebb_original" in vars(cls) for cls in type(model).__mro__)


def patch(model, *, head=None, batch=None, round_logits=False, round_sums=False):
    """The model itself, which from now on computes its training loss by linear_cross_entropy: the logits, tokens times
    vocabulary, are not in memory. Training loops and Trainer stay as they are; unpatch undoes it.

    For language models of transformers whose loss is the cross-entropy of a linear head's logits, scaled or capped by the
    model or not, with or without adapters of PEFT (a PeftModel can be passed, too). `head` is the head, or its name in the
    model, where get_output_embeddings() does not return it. One small batch is computed with and without the patch;
    models whose loss would differ or needs all logits are refused. `batch` has the arguments of that call, for models that
    take something else than input_ids.

    Logits are not rounded, whatever the model's own code does. For bf16 on a GPU, round_logits=True rounds them to bf16 as
    that code does, which takes less time and memory; round_sums=True rounds the gradient of the head after each chunk of rows
    instead of summing it in f32, which takes less memory.

    Logits among the outputs of a training step are computed when something looks at them. Without labels, or after
    model.eval(), the model does what it always did, unless it is called with skip_logits=True.
    """
    outer, model = model, _bare("patch", model)
    name = type(model).__name__
    if _is_patched(model):
        raise ValueError("patch: the model is patched already; unpatch it first")
    if "forward" in vars(model):
        raise ValueError(
            f"patch: the forward of this {name} was replaced by {getattr(model.forward, '__qualname__', model.forward)!r} "
            "(as accelerate and Liger do); patch the model before that"
        )
    if not hasattr(model, "forward") or "labels" not in inspect.signature(type(model).forward).parameters:
        raise ValueError(f"patch: {name} has no argument labels, so it computes no loss; patch a model with a language model's head")
    path = _path_of(model, head)
    found = model.get_submodule(path) if path else getattr(model, "get_output_embeddings", lambda: None)()
    if found is None:
        raise ValueError(f"patch: {name} does not say what its head is; pass it: patch(model, head=model.lm_head)")
    _require_linear(name, found)
    linear = torch.nn.functional.linear
    if linear is not LINEAR and not is_partitioned(parameter_of(_linear_of(found), "weight")):
        raise ValueError(
            f"patch: torch.nn.functional.linear was replaced by {linear.__module__}.{linear.__qualname__}, as DeepSpeed's ZeRO-3 "
            "does; patch the model before that"
        )
    if path:
        vars(model)["_ebb_head"] = path
    vars(model)["_ebb_rounds"] = ("round_logits",) * bool(round_logits) + ("round_sums",) * bool(round_sums)
    try:
        plain = _small_step(model, batch)
    except Exception as error:
        main = getattr(model, "main_input_name", "input_ids")
        if batch is not None or main == "input_ids":
            raise
        raise ValueError(
            f"patch: {name} takes {main}, of which patch cannot make a small batch; pass one with its labels: "
            f"patch(model, batch={{{main!r}: .., 'labels': ..}})"
        ) from error
    _hook(found)
    model.__class__ = _patched(type(model))
    try:
        _require_same(name, plain, model, batch)
    except BaseException:
        unpatch(model)
        raise
    if plain is not None and batch is None:
        names = inspect.signature(type(model).forward).parameters
        _causal_calls.learn(model, names, lambda options: _small_step(model, None, **options))
    return outer


def _path_of(model, head):
    if head is None or isinstance(head, str):
        return head
    for path, module in model.named_modules():
        if module is head:
            return path
    raise ValueError(f"patch: the head, a {_class_of(head)}, is not a module of the {type(model).__name__}")


def _small_step(model, batch, **options):
    """The loss of a small batch; None where the model has no values, or ranks have parts of them."""
    if any(p.is_meta or is_partitioned(p) for p in model.parameters()):
        return None
    words = model.get_input_embeddings().weight
    count = min(words.shape[0], _linear_of(_head_of(model)).weight.shape[0])
    tokens = (torch.arange(16, device=words.device) * 7 % count).reshape(2, 8)
    batch = {"input_ids": tokens, "labels": tokens} if batch is None else batch
    devices = [words.device] if words.is_cuda else []
    with torch.no_grad(), torch.random.fork_rng(devices), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        output = model(**batch, **options)
    return output[0] if isinstance(output, tuple) else output.loss


def _require_same(name, plain, model, batch):
    if plain is None:
        return
    fused, before = getattr(here, "fused", 0), getattr(here, "always", False)
    here.always = True
    try:
        ours = _small_step(model, batch)
    finally:
        here.always = before
    weight = parameter_of(_linear_of(_head_of(model)), "weight")
    if getattr(here, "fused", 0) == fused and _is_sharded(weight):
        raise ValueError(
            f"patch: the weight of the head of {name} is in parts, {list(weight.placements)}, in a way that patch does not follow; "
            "have it in parts by classes along one axis (tp_plan: colwise_gather_output), or leave the head out of the plan"
        )
    head = _head_of(model)
    if getattr(here, "fused", 0) == fused and _linear_of(head) is not head:
        raise ValueError(
            f"patch: the head of {name} is a {_class_of(head)}, an adapter that needs all logits; adapt other layers, or leave the "
            "model unpatched"
        )
    if getattr(here, "fused", 0) == fused:
        loss = getattr(model, "loss_function", None)
        raise ValueError(
            f"patch: the loss of {name} ({getattr(loss, '__name__', 'computed in its forward')}) is not a cross-entropy of "
            "its head's logits, scaled or capped; it needs all of them"
        )
    tolerance = 1e-4 if plain.dtype in (torch.float32, torch.float64) and _is_precise(model) else 2e-2
    if not torch.allclose(ours.double(), plain.double(), rtol=tolerance, atol=tolerance):
        raise ValueError(
            f"patch: {name} has the loss {plain.item():.6g} on a small batch, and {ours.item():.6g} when patched; it does "
            "something to its logits that patch does not follow"
        )


def _is_precise(model):
    return _linear_of(_head_of(model)).weight.dtype in (torch.float32, torch.float64)


def unpatch(model):
    """Undoes patch: the model's own forward is back."""
    outer, model = model, _bare("unpatch", model)
    cls = type(model)
    if "_ebb_original" not in vars(cls):
        behind = ", and its class was changed since (by FSDP?)" if _is_patched(model) else ""
        raise ValueError(f"unpatch: the model is {'patched' if behind else 'not patched'}{behind}")
    model.__class__ = vars(cls)["_ebb_original"]
    for name in ("_ebb_head", "_ebb_rounds"):
        vars(model).pop(name, None)
    _causal_calls.forget(model)
    for module in model.modules():
        for key, hook in list(module._forward_pre_hooks.items()):
            if hook is _defer or hook is _leave:
                del module._forward_pre_hooks[key]
    return outer
