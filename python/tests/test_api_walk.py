# SPDX-License-Identifier: MIT
"""Nothing that C++ has is missing in Python: the op table, the loss registry and the public headers are walked."""

import inspect
import re
import sys
from pathlib import Path

import pytest

import ebb
from ebb import _core

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python" / "tools"))
from header_docs import documented  # noqa: E402

# Rows of the op table that are parts of others and have no function of their own, and where they show.
PARTS = {
    "data": "tensor",
    "constant": "full",
    "iota": "arange",
    "random_uniform": "rand",
    "track": "grad",
    "depend": "checkpoint",
    "custom": "custom_function",
    "formula": "softmax",
    "to_device": "Tensor",  # its method to()
    "output": "topk",
    "copy": "contiguous",
    "check": "binary_cross_entropy",
    "log1p_unit": "softplus",
    "pick": "nll_loss",
    "place": "nll_loss_backward",
    "scatter_zero_add": "scatter_add",
    "index_zero_add": "index_add",
    "pad_zero": "pad",
    "cummax_place": "cummax",
    "cummin_place": "cummin",
    "linear_recurrence": "cumprod_backward",
    "convolution": "conv2d",
    "conv_transpose": "conv_transpose2d",
    "conv_weight_gradient": "conv2d_backward",
    "max_pool_index": "max_pool2d_with_indices",
    "window_sum": "avg_pool2d",
    "window_spread": "avg_pool2d_backward",
    "weighted_scatter": "weighted_gather",
    "gather_dot": "weighted_gather",
    "grid_sample_image_gradient": "grid_sample",
    "grid_sample_grid_gradient": "grid_sample",
    "distances": "cdist",
    "distances_gradient": "cdist",
    "sparsemax_threshold": "sparsemax_loss",
    "multilabel_hinges": "multilabel_margin_loss",
    "collective": "distributed",
    "attention": "scaled_dot_product_attention",
    "attention_gradient": "scaled_dot_product_attention_backward",
    "ctc": "ctc_loss",
    "transducer": "rnnt_loss",
}

# Functions of the headers that Python spells differently, or that only a compiled language needs.
SPELLED = {
    "least_squares": "lstsq",
    "device_from_name": None,  # devices are named by strings
    "linear_loss": None,  # ebb.torch has it; formulas of Ebb's own tensors become strips
    "from_bytes": "tensor",
    "from_data": "tensor",
    "from_foreign": "from_dlpack",
    "tensor_from": "tensor",
    "require_count": None,
    "size_of": "dtype",
    "name": "dtype",
    "dtype_from_name": "dtype",
    "half_from": None,
    "bfloat16_from": None,
    "to_float": None,
    "promote": "promote_types",
    "compute_dtype": None,
    "is_floating": "dtype",
    "is_half": None,
    "is_integer": None,
    "contiguous_strides": None,
    "is_contiguous": None,
    "normalize_axis": None,
    "random_state": "random_state",
    "require_gradients": "gradcheck",
    "require_second_gradients": "gradcheck",
    # by name: the functions themselves are there
    "loss_registry": "losses",
    "loss_info": "losses",
    "evaluate_loss": "losses",
    "call_loss": "losses",
    "loss_option_from_text": None,
    "reduction_from_name": None,
    "linear_token_statistics": "linear_log_probs",
    "linear_token_statistics_backward": "linear_log_probs",
    "linear_token_statistics_jvp": "linear_log_probs",
}


def headers(*folders):
    for folder in folders:
        yield from sorted((ROOT / "include" / "ebb").glob(folder))


def functions(*folders):
    """(header, name) of every free function."""
    for header in headers(*folders):
        for name, _ in documented(header.read_text(encoding="utf-8")):
            if not name.startswith("operator"):
                yield header.name, name


def test_every_row_of_the_op_table_can_be_called():
    for row in _core._op_table():
        assert hasattr(ebb, PARTS.get(row, row)), f"the op table has {row}, Python does not"


def test_parts_are_rows_of_the_op_table():
    assert set(PARTS) <= set(_core._op_table())


@pytest.mark.parametrize("folder", ["ops/*.h", "backward/*.h", "losses/*.h", "[!i]*.h"])
def test_every_function_of_the_headers_is_there(folder):
    missing = []
    found = 0
    for header, name in functions(folder):
        found += 1
        spelled = SPELLED.get(name, name)
        if spelled is not None and not hasattr(ebb, spelled):
            missing.append(f"{header}: {name}")
    assert not missing
    assert found > 10, "the headers were not found"


@pytest.mark.parametrize(
    "folder, module", [("nn/init.h", ebb.nn.init), ("optim/*.h", ebb.optim), ("data/*.h", ebb.data), ("io.h", ebb.io)]
)
def test_every_function_of_the_other_headers_is_there(folder, module):
    missing = [name for _, name in functions(folder) if not hasattr(module, name)]
    assert not missing


def test_every_layer_and_optimiser_is_there():
    layers = set()
    for header in headers("nn/[!p]*.h", "nn/pool.h"):  # parameters.h has none
        text = header.read_text(encoding="utf-8")
        layers |= {
            name
            for name, body in re.findall(r"^struct (\w+)[^;{]*\{(.*?)^\};", text, re.S | re.M)
            if "operator()" in body
        }
        layers |= set(re.findall(r"^struct (\w+) \{.*operator\(\).*\};$", text, re.M))
    assert len(layers) > 40
    assert not [name for name in layers if not hasattr(ebb.nn, name)]
    classes = {
        name
        for header in headers("optim/*.h", "amp.h")
        for name in re.findall(r"^class (\w+)", header.read_text(encoding="utf-8"), re.M)
    }
    assert len(classes) > 10
    classes.discard("Stepped")  # what a step gives in C++, where it may be read later; in Python it is a bool
    assert not [name for name in classes if not hasattr(ebb.optim, name)]


def test_every_loss_has_its_inputs_and_options_as_arguments():
    assert len(ebb.losses.registry) > 50
    for entry in ebb.losses.registry:
        loss = getattr(ebb, entry["name"])
        assert loss is getattr(ebb.losses, entry["name"])
        parameters = inspect.signature(loss).parameters
        for name, _, optional in entry["inputs"]:
            assert (parameters[name].default is None) == optional, f"{entry['name']}: {name}"
        for name, default, meaning in entry["options"]:
            parameter = parameters[ebb.losses.argument_name(name)]
            by_position = name in ebb.losses.TORCH_ORDER.get(entry["name"], ())
            assert (parameter.kind is inspect.Parameter.KEYWORD_ONLY) != by_position
            assert parameter.default == default
            assert meaning in loss.__doc__
        assert entry["formula"] in loss.__doc__
        assert callable(loss.value_and_grad) and callable(getattr(ebb, entry["name"] + "_backward"))


def test_functions_have_signatures_and_the_words_of_the_headers():
    assert "log(1 + e^(beta·x)) / beta" in ebb.softplus.__doc__
    assert re.match(r"softplus\(x: [\w.]*Tensor, beta: float = 1.0\)", ebb.softplus.__doc__)
    assert "axis" in ebb.sum.__doc__ and "keepdim" in ebb.sum.__doc__
    assert ebb.Tensor.softplus.__doc__.startswith("softplus(self, beta: float = 1.0)")
