# SPDX-License-Identifier: MIT
"""What to use instead of names that PyTorch has and Ebb does not: the words of an AttributeError.

A name is here where Ebb differs on purpose; docs/from_pytorch.md gives the reasons.
"""

import sys

VALUES = "a tensor is a value and is never written to"

PACKAGE = {
    **dict.fromkeys(
        ("no_grad", "enable_grad", "inference_mode", "set_grad_enabled", "is_grad_enabled"),
        "it is not needed: a history exists only where a variable is upstream, and x.detach() leaves it behind",
    ),
    "save": "use ebb.io.save_safetensors(path, model), or pickle",
    "load": "use model.load_state_dict(ebb.io.load_safetensors(path)), or pickle",
    "autograd": "ebb.backward(loss) gives the gradients of variables, ebb.grad(f) the gradient of a function",
    "func": "grad, vjp, jvp, jacobian, hvp and hessian are in ebb itself",
    **dict.fromkeys(("jacrev", "jacfwd"), "ebb.jacobian(f) is a function of x, and so is ebb.hessian(f)"),
    **dict.fromkeys(("set_seed", "seed", "random"), "ebb.manual_seed(seed) seeds, ebb.rand, randn, randint and others draw"),
    "vmap": "operations take any number of leading axes; write the batch as one of them",
    "Generator": "random numbers follow ebb.manual_seed(seed)",
    "set_default_dtype": "pass dtype=, or cast a model with model.to(dtype)",
    "jit": "ebb.compile(f) plans a function once; fusion happens without it",
    **dict.fromkeys(("autocast", "amp"), "compute with ebb.nn.cast_parameters(model, ebb.bf16), which keeps wide weights"),
    "backends": "there is nothing to set: results are repeatable, and the fastest algorithm is chosen from sizes alone",
    "utils": "loaders are in ebb.data, ebb.checkpoint recomputes, ebb.optim.clip_by_norm clips gradients",
    "distributions": "draw with ebb.randn, rand, normal, multinomial; the losses have negative log-likelihoods",
    **dict.fromkeys(
        ("fft", "stft", "istft", "complex", "complex64", "complex128", "polar", "view_as_real", "view_as_complex"),
        "there are no complex numbers",
    ),
    "array": "use ebb.tensor(data), or ebb.asarray(array), which copies only where it must",
    **dict.fromkeys(("LongTensor", "FloatTensor", "DoubleTensor", "BoolTensor", "IntTensor"), "use ebb.tensor(data, dtype)"),
}

TENSOR = {
    "grad": "gradients are a value: grads = ebb.backward(loss), then grads[x]",
    **dict.fromkeys(("requires_grad_", "retain_grad"), "ebb.variable(x) is x as a variable, whose gradient is then grads[x]"),
    "grad_fn": "histories are not shown; requires_grad says whether there is one",
    "register_hook": "ebb.custom_function gives a function a gradient of your own",
    "data": "x.detach() is the value without its history",
    "values": "max, min and median give values alone; argmax and argmin give positions",
    "indices": "max, min and median give values alone; argmax and argmin give positions",
    "storage": "x.numpy() shares the memory",
    "tobytes": "use x.numpy().tobytes()",
    **dict.fromkeys(("tofile", "dump"), "use ebb.io.save_npy(path, x)"),
    **dict.fromkeys(("fill", "put", "partition", "resize"), f"{VALUES}; use full_like, index_put, sort or reshape"),
    **dict.fromkeys(("argpartition",), "use argsort or topk"),
    "flat": "use x.flatten()",
    "compress": "use x[mask]",
    **dict.fromkeys(("real", "imag", "conj", "conjugate"), "there are no complex numbers"),
    "data_ptr": "x.numpy() shares the memory, x.numpy().ctypes.data is its address",
}

MODULE = {
    "register_buffer": "self.name = nn.Buffer(x) is saved and not trained; its tensor is self.name.value",
    "register_parameter": "self.name = nn.Parameter(x)",
    "zero_grad": "gradients are a value that ebb.backward(loss) returns; there is nothing to zero",
    "requires_grad_": "give the optimizer only what is to be trained: optimizer.step(model.head, gradients)",
    "register_forward_hook": "override forward, or compose functions",
    "add_module": "self.name = layer",
}

_SCHEDULE = "a schedule is a function of the step: schedule = ebb.optim.{}, and optimizer.lr = schedule(step) before each step"
OPTIM = {
    "lr_scheduler": _SCHEDULE.format("cosine_schedule(lr, steps)"),
    "CosineAnnealingLR": _SCHEDULE.format("cosine_schedule(lr, steps)"),
    "StepLR": _SCHEDULE.format("step_schedule(lr, step_size)"),
    "MultiStepLR": _SCHEDULE.format("multistep_schedule(lr, milestones)"),
    "ExponentialLR": _SCHEDULE.format("exponential_schedule(lr, gamma)"),
    "LinearLR": _SCHEDULE.format("linear_schedule(lr, start_factor, end_factor, steps)"),
    "OneCycleLR": _SCHEDULE.format("one_cycle_schedule(lr, steps)"),
    "LambdaLR": "a schedule is any function of the step: optimizer.lr = schedule(step) before each step",
    "ReduceLROnPlateau": "plateau = ebb.optim.ReduceOnPlateau(lr), and optimizer.lr = plateau(loss) after each validation",
    "swa_utils": "ebb.optim.WeightEma(decay) averages a model's weights",
    **dict.fromkeys(("clip_grad_norm_", "clip_grad_norm"), "gradients, norm = ebb.optim.clip_by_norm(gradients, 1.0)"),
}

IO = {
    "save": "use save_safetensors(path, model), save_checkpoint, save_npz or save_npy; tensors and models can be pickled",
    "load": "use load_safetensors(path), load_checkpoint, load_npz or load_npy",
}

GRADCHECK = dict.fromkeys(("gradcheck", "gradgradcheck"), "check_gradients(f, inputs) and check_second_gradients(f, inputs) check f")

NN = {"utils": "gradients, norm = ebb.optim.clip_by_norm(gradients, 1.0) clips; ebb.optim has what else is done to gradients"}

OPTIMIZER = {
    "zero_grad": "gradients are a value that ebb.backward(loss) returns; there is nothing to zero",
    "param_groups": "set optimizer.lr; for several rates use several optimizers, each with its part of the model",
    "set_lr": "use optimizer.lr = schedule(step)",
    "add_param_group": "use several optimizers, each with its part of the model",
    "state_dict": "use state(); ebb.io.save_checkpoint(path, ebb.io.Checkpoint(model.state_dict(), optimizer.state())) saves both",
    "load_state_dict": "use load_state(ebb.io.load_checkpoint(path).optimizer)",
}


def explain(cls, hints):
    """Attributes that the class does not have are errors that say what to use."""

    def __getattr__(self, name):
        said = f"'{type(self).__name__}' object has no attribute '{name}'"
        hint = hints.get(name)
        if hint is None and cls.__name__ == "Tensor" and name[-1] == "_" and name[0] != "_" and hasattr(cls, name[:-1]):
            hint = f"{VALUES}; use x = x.{name[:-1]}(...)"
        raise AttributeError(said if hint is None else f"{said}: {hint}", name=name, obj=self)

    cls.__getattr__ = __getattr__


def of_module(module, hints):
    """The __getattr__ of a module."""

    def __getattr__(name):
        said = f"module '{module}' has no attribute '{name}'"
        if name in hints:
            said += f": {hints[name]}"
        elif name[0] != "_":  # the interpreter proposes no names of modules with more than 750
            import difflib  # only now: importing ebb should stay quick

            near = difflib.get_close_matches(name, vars(sys.modules[module]), 1, 0.8)
            said += f"; did you mean {near[0]}?" if near else ""
        raise AttributeError(said, name=name)

    return __getattr__


# PyTorch's functions that write, as calls that return what they would have written.
INIT = {
    **{f"{name}_": f"nn.init.{name}(layer.weight.shape)" for name in ("kaiming_normal", "kaiming_uniform", "xavier_normal")},
    **{f"{name}_": f"nn.init.{name}(layer.weight.shape)" for name in ("xavier_uniform", "orthogonal")},
    "normal_": "nn.init.normal(layer.weight.shape, mean=0.0, deviation=0.02)",
    "uniform_": "nn.init.uniform(layer.weight.shape, low=0.0, high=1.0)",
    "trunc_normal_": "nn.init.truncated_normal(layer.weight.shape, deviation=0.02)",
    "constant_": "ebb.full_like(layer.weight, 0.1)",
    "zeros_": "ebb.zeros_like(layer.weight)",
    "ones_": "ebb.ones_like(layer.weight)",
    "eye_": "ebb.eye(*layer.weight.shape)",
}


def of_init(name):
    """__getattr__ of ebb.nn.init, whose functions return what PyTorch's write."""
    said = f"module 'ebb.nn.init' has no attribute '{name}'"
    if name in INIT:
        said += f": {VALUES}; use layer.weight = nn.Parameter({INIT[name]})"
    raise AttributeError(said, name=name)
