# SPDX-License-Identifier: MIT
"""What PyTorch refuses, Ebb refuses too: the inputs of PyTorch's own tests that must be errors, given to the functions and
layers of the same names.

Prints a row for each input that is accepted here on purpose, with the reason, and ends with 1 if one is accepted without one
or refused by an exception that is not about the input.
"""

import collections
import sys
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import ErrorModuleInput, ModuleErrorEnum, module_db

import ebb
from samples import converted, describe, flat, our_function

warnings.filterwarnings("ignore")
CLEAN = (ValueError, TypeError, IndexError, NotImplementedError)

# Functions of two operands, either of which may be a number; PyTorch's tests say no words of its error.
OF_NUMBERS = (
    "clamp_max clamp_min atan2 copysign eq fmax fmin fmod remainder ge gt le ldexp lt max maximum min minimum heaviside ne pow "
    "rsub hypot xlogy"
).split()
# (words of PyTorch's error, why the input means something here)
EXPLAINED = {
    **dict.fromkeys(("scatter", "scatter_add"), ("dtype to be equal to", "dtypes are promoted")),
    **dict.fromkeys(("nn.RNN", "nn.GRU", "nn.LSTM"), ("does not match weight dtype", "dtypes are promoted")),
    "nn.functional.group_norm": ("to be greater than 0", "nothing gives nothing"),
    "nn.functional.max_pool1d": ("Expected 2D or 3D", "nothing gives nothing"),
    "nn.functional.max_pool3d": ("non-zero size", "nothing gives nothing"),
    "multinomial": ("number of categories cannot exceed", "any number of categories"),
    "trace": ("expected a matrix", "the traces of a batch"),
    "mean": ("Input dtype must be", "a mean of integers is f32"),
    "linalg.cross": ("same number of dimensions", "axes broadcast"),
    **dict.fromkeys(
        ("nn.BatchNorm1d", "nn.BatchNorm2d", "nn.BatchNorm3d"), ("eps must be positive", "0 is permitted, where numbers differ")
    ),
}


def reason_of(name, words):
    if name in OF_NUMBERS and not words:
        return "numbers are operands"
    text, reason = EXPLAINED.get(name, (None, None))
    return reason if text is not None and text in words else None


def evaluated(result):
    for x in flat(result):
        if isinstance(x, ebb.Tensor):
            x.eval()


def outcome(call, *args, **kwargs):
    """None where the input is refused as it should be; else what happened."""
    try:
        arguments, keywords = converted(args), converted(kwargs)
    except Exception:  # noqa: BLE001: a dtype or a layout that Ebb does not have
        return None
    try:
        evaluated(call(*arguments, **keywords))
    except CLEAN as e:
        return f"{type(e).__name__}: {e}" if "internal" in str(e) else None
    except Exception as e:  # noqa: BLE001
        return f"{type(e).__name__}: {e}"
    return "accepted"


class Report:
    def __init__(self):
        self.reasons, self.failed, self.count, self.names = collections.Counter(), [], 0, set()

    def add(self, name, words, found, shown):
        self.count += 1
        self.names.add(name)
        if found is None:
            return
        reason = reason_of(name, words) if found == "accepted" else None
        if reason:
            self.reasons[f"{name}: {reason}"] += 1
        else:
            self.failed.append(f"{name}{shown}: {found}\n      PyTorch: {words}")


def walk_operations(report):
    for op in op_db:
        ours = our_function(op.name, op.variant_test_name)
        if ours is None or op.error_inputs_func is None or op.variant_test_name == "in_place":
            continue
        for error in op.error_inputs("cpu"):
            sample = error.sample_input
            if "out" in sample.kwargs:
                continue
            words = str(error.error_regex)
            report.add(op.name, words, outcome(ours, sample.input, *sample.args, **sample.kwargs), describe(sample))


def walk_modules(report):
    for info in module_db:
        name = info.module_cls.__name__
        if not hasattr(ebb.nn, name) or info.module_error_inputs_func is None:
            continue
        for training in (True, False):
            given = {"device": "cpu", "dtype": torch.float64, "requires_grad": False, "training": training}
            for error in info.module_error_inputs_func(info, **given):
                assert isinstance(error, ErrorModuleInput)
                made, words = error.module_error_input.constructor_input, str(error.error_regex)
                shown = f"{made.args} {made.kwargs}"
                if error.error_on is ModuleErrorEnum.CONSTRUCTION_ERROR:
                    report.add(f"nn.{name}", words, outcome(getattr(ebb.nn, name), *made.args, **made.kwargs), shown)
                    continue
                layer = getattr(ebb.nn, name)(*converted(made.args), **converted(made.kwargs)).double().train(training)
                call = error.module_error_input.forward_input
                report.add(f"nn.{name}", words, outcome(layer, *call.args, **call.kwargs), f"{shown} {describe_call(call)}")


def describe_call(call):
    return ", ".join(str(list(x.shape)) if isinstance(x, torch.Tensor) else repr(x) for x in call.args)


def main():
    report = Report()
    walk_operations(report)
    walk_modules(report)
    print(f"{report.count} inputs that PyTorch refuses, of {len(report.names)} functions and layers.")
    print(f"\nAccepted, and why ({sum(report.reasons.values())}):")
    for text, times in sorted(report.reasons.items()):
        print(f"  {times:5}  {text}")
    print(f"\n{len(report.failed)} are accepted without a reason, or refused by the wrong kind of error.")
    for text in report.failed:
        print(f"  {text}")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
