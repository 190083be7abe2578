# SPDX-License-Identifier: MIT
"""Compiled patched models: attention is causal, without a mask, where the caller says nothing of sequences, and as the model has it
where he does.

Run by run.py with pytest, in the Python that has PyTorch and transformers.
"""

import copy
import inspect
import re
import sys
import threading
from pathlib import Path

import pytest
import torch
import transformers.masking_utils as masks
from patched_models import make, require_same, step, tokens

import ebb.torch
from ebb.torch._causal_calls import by_lengths

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import linear_heads  # noqa: E402


@pytest.fixture
def graphs():
    torch._dynamo.reset()
    return []


def compiled(model, graphs, **options):
    def keep(graph, inputs):
        graphs.append(graph)
        return graph.forward

    return torch.compile(model, backend=keep, **options)


def nodes(graphs):
    inner = [module for graph in graphs for module in graph.modules() if isinstance(module, torch.fx.GraphModule)]
    return [node for graph in inner for node in graph.graph.nodes]


def looks_for_sequences(graphs):
    return any("cumsum" in str(node.target) for node in nodes(graphs))


def masked(graphs):
    """Of each attention: has it a mask?"""
    attention = [node for node in nodes(graphs) if "scaled_dot_product" in str(node.target)]
    return [node.kwargs.get("attn_mask") is not None or len(node.args) > 3 for node in attention]


def require_same_step(model, run, **given):
    loss, gradients = step(run, **given)
    require_same((loss, {name.removeprefix("_orig_mod."): g for name, g in gradients.items()}), step(model, **given))


PACKED = torch.cat([torch.arange(9), torch.arange(8)]).repeat(3, 1)


@pytest.mark.parametrize(
    "given, looks",
    [({}, False), ({"return_dict": False}, False), ({"position_ids": PACKED}, True), ({"attention_mask": torch.ones(3, 17)}, False)],
    ids=["nothing", "a tuple", "positions", "a mask"],
)
def test_attention_is_causal_unless_there_are_positions(given, looks, graphs):
    model = ebb.torch.patch(make(use_cache=False))  # with a cache transformers does not look
    run = compiled(model, graphs, fullgraph=True)
    require_same_step(model, run, **given)
    assert looks_for_sequences(graphs) == looks
    if not given or "return_dict" in given:
        assert masked(graphs) == [False, False]


def never_while_compiling(decide):
    """The decision of transformers before 5.18."""

    def ignore_causal_mask(*args):
        return not torch.compiler.is_compiling() and decide(*args)

    ignore_causal_mask.__signature__ = inspect.signature(decide)
    return ignore_causal_mask


@pytest.fixture(params=["installed", "before 5.18"])
def transformers_is(request, monkeypatch):
    """The installed transformers, or one that decides on masks as older ones."""
    ebb.torch.unpatch(ebb.torch.patch(make()))  # which replaces the decision
    if request.param != "installed":
        monkeypatch.setattr(masks, "_ignore_causal_mask_sdpa", by_lengths(never_while_compiling(masks._ignore_causal_mask_sdpa)))
    return request.param


@pytest.mark.parametrize("name", ["patched", "patched, rounding"])
def test_the_step_that_linear_heads_times_has_no_mask(name, graphs, transformers_is):
    length, device = 40, linear_heads.Device(tiny=True)

    def keep(graph, inputs):
        graphs.append(graph)
        return graph.forward

    model, run = linear_heads.llama_ways(device, keep)[f"{name}, compiled"]
    linear_heads.llama_step(model.bfloat16(), run, tokens(2, length))
    attention = [node for node in nodes(graphs) if "scaled_dot_product" in str(node.target)]
    assert len(graphs) == 1 and masked(graphs) == [False] and attention[0].kwargs["is_causal"] is True
    values = [node.meta.get("example_value") for node in nodes(graphs)]
    assert len(values) > 50
    assert not [x for x in values if isinstance(x, torch.Tensor) and x.shape[-2:] == (length, length)]


def test_unpatched_models_keep_what_transformers_decides(graphs, transformers_is):
    model = make(use_cache=False)
    require_same_step(model, compiled(model, graphs, fullgraph=True))
    assert masked(graphs) == [True, True]
    if transformers_is == "before 5.18":
        torch._dynamo.reset()
        graphs.clear()
        compiled(model, graphs, fullgraph=True)(input_ids=tokens(), use_cache=True)
        assert masked(graphs) == [True, True]


@pytest.mark.parametrize("window, with_mask", [(None, False), (64, False), (4, True)])
def test_windows_that_are_longer_than_rows_need_no_mask(window, with_mask, graphs, transformers_is):
    options = {} if window is None else {"sliding_window": window}
    model = ebb.torch.patch(make("Mistral", use_cache=False, **options))
    require_same_step(model, compiled(model, graphs, fullgraph=True, dynamic=True))
    assert masked(graphs) == [with_mask, with_mask]


def test_outputs_have_no_cache(graphs):
    model = make(use_cache=False)
    expected = model(input_ids=tokens(), labels=tokens())
    ebb.torch.patch(model)
    found = compiled(model, graphs)(input_ids=tokens(), labels=tokens())
    assert list(found) == list(expected) and found.past_key_values is None and type(found) is type(expected)
    found = compiled(model, graphs)(input_ids=tokens(), labels=tokens(), return_dict=False)
    assert len(found) == 2
    kept = compiled(model, graphs)(input_ids=tokens(), labels=tokens(), use_cache=True).past_key_values
    assert kept.get_seq_length() == 17


def test_a_cache_may_have_been_left_out_by_position(graphs):
    model = ebb.torch.patch(make(use_cache=False))
    expected = model(input_ids=tokens(), labels=tokens()).loss.item()
    found = compiled(model, graphs, fullgraph=True)(tokens(), None, None, None, None, tokens()).loss
    assert found.item() == pytest.approx(expected, rel=1e-5)
    assert not looks_for_sequences(graphs)


WINDOW = {"sliding_window": 4}
JAMBA = {"num_experts": 2, "mamba_d_state": 8, "mamba_dt_rank": 4, "use_mamba_kernels": False}


@pytest.mark.parametrize(
    "family, options, known, with_mask",
    [
        ("Mistral", WINDOW, True, True),
        ("Mistral", {"sliding_window": 64}, True, False),
        ("Qwen3", {}, True, False),
        ("GPTNeoX", {}, True, False),
        ("Gemma2", {"final_logit_softcapping": 3.0}, True, None),
        ("Jamba", JAMBA, False, None),  # states besides keys and values
    ],
)
def test_windows_and_states_are_the_models(family, options, known, with_mask, graphs):
    model = ebb.torch.patch(make(family, use_cache=False, **options))
    require_same_step(model, compiled(model, graphs, fullgraph=True))
    assert looks_for_sequences(graphs) != known
    if with_mask is not None:
        assert masked(graphs) == [with_mask, with_mask]


def test_checkpointed_layers_compile(graphs):
    model = make(use_cache=False)
    for enabled_first in (True, False):
        if enabled_first:
            model.gradient_checkpointing_enable()
        ebb.torch.patch(model)
        if not enabled_first:
            model.gradient_checkpointing_enable()
        require_same_step(model, compiled(model, graphs, fullgraph=True))
        ebb.torch.unpatch(model).gradient_checkpointing_disable()


def test_exported_programs_have_masks_that_fit_other_lengths():
    """With any PyTorch, also those that took compiling for exporting."""

    def exported(model):
        shapes = {"input_ids": {1: torch.export.Dim("length", min=2, max=60)}, "use_cache": None}
        return torch.export.export(model, (), {"input_ids": tokens(), "use_cache": False}, dynamic_shapes=shapes, strict=False)

    model = ebb.torch.patch(make(use_cache=False)).eval()
    try:
        exported(make(use_cache=False).eval())
    except Exception as error:  # PyTorch 2.11 with transformers 5.17: "Constraints violated (length)"
        with pytest.raises(type(error), match=re.escape(str(error)[:40])):
            exported(model)
        return
    for ids in (tokens(), tokens(3, 9)):
        torch.testing.assert_close(exported(model).module()(input_ids=ids, use_cache=False).logits, model(input_ids=ids).logits)


class LossOf(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(input_ids=ids, labels=ids).loss


@pytest.mark.parametrize("strict", [True, False])
def test_exported_losses_have_masks_that_fit_other_lengths(strict):
    """Of a model in training, which by_lengths would be for if it were compiled."""
    module = LossOf(ebb.torch.patch(make(use_cache=False)))
    shapes = {"ids": {1: torch.export.Dim.AUTO}}
    exported = torch.export.export(module, (tokens(),), dynamic_shapes=shapes, strict=strict)
    found = [node for node in exported.graph.nodes if "scaled_dot_product" in str(node.target)]
    assert found and all(len(node.args) > 3 or node.kwargs.get("attn_mask") is not None for node in found)
    torch.testing.assert_close(exported.module()(tokens()), module(tokens()))


def test_copies_know_it(graphs):
    model = copy.deepcopy(ebb.torch.patch(make(use_cache=False)))
    require_same_step(model, compiled(model, graphs, fullgraph=True))
    assert not looks_for_sequences(graphs)


def test_other_threads_see_nothing_of_it(graphs):
    """Where a graph breaks in the middle of a call, the rest of Python runs, and other threads always do."""
    model, find, seen = ebb.torch.patch(make(use_cache=False)), masks.find_packed_sequence_indices, []

    def by_another_thread():
        packed = find(PACKED)
        seen.append(masks.find_packed_sequence_indices is find and packed is not None and packed[0, -1].item() == 1)

    @torch.compiler.disable
    def look(*_):
        thread = threading.Thread(target=by_another_thread)
        thread.start()
        thread.join()

    model.model.layers[0].register_forward_hook(look)
    require_same_step(model, compiled(model, graphs))
    assert len(graphs) > 1 and len(seen) >= 2 and all(seen)
