# SPDX-License-Identifier: MIT
"""Layers of torch.nn that are a function with its arguments."""

from .. import _core, compat
from ..compat import _spelling

# Arguments of torch.nn's layers that change nothing here, and former names of others.
_WITHOUT_EFFECT, _FORMERLY = ("inplace",), {"min_value": "min_val", "max_value": "max_val"}
_QUIET = ("return_indices", "divisor_override")  # repr() shows them where they are given
# Ebb's spelling of some.
ALIASES = {"Relu": "ReLU", "Relu6": "ReLU6", "LeakyRelu": "LeakyReLU", "Elu": "ELU", "Selu": "SELU", "Celu": "CELU"}
ALIASES |= {"Gelu": "GELU", "Silu": "SiLU", "Glu": "GLU"}


def stateless(Module, name, function, *parameters, **defaults):
    """A layer that only remembers the arguments of a function, in the order of torch.nn's layer."""
    names = list(parameters) + list(defaults)
    spelled = _spelling.renames(function.__name__, ["x", *names], False)  # dim, start_dim: PyTorch's names

    def __init__(self, *args, **kwargs):
        if len(args) > len(names):
            raise TypeError(f"{name}: takes {len(names)} arguments, got {len(args)}")
        kwargs = {spelled.get(key, key): value for key, value in kwargs.items()}
        values = dict(defaults, **dict(zip(names, args)), **kwargs)
        unknown, missing = set(values) - set(names), set(parameters) - set(values)
        if unknown or missing:
            raise TypeError(
                f"{name}: takes {', '.join(names) or 'nothing'}; unknown {sorted(unknown)}, missing {sorted(missing)}"
            )
        axis = values.get("axis")
        if axis is not None and type(axis) is not int:
            raise TypeError(f"{name}: the axis must be an integer, got {axis!r}")
        for old, new in _FORMERLY.items():
            value = values.pop(old, None)
            values.update({} if value is None else {new: value})
        self.options = {key: value for key, value in values.items() if key not in _WITHOUT_EFFECT}

    def forward(self, input):
        """The function of the input."""
        return getattr(compat, function.__name__)(input, **self.options)

    def extra_repr(self):
        """The arguments, for repr()."""
        return ", ".join(f"{key}={value!r}" for key, value in self.options.items() if key not in _QUIET or value)

    doc = f"The function {function.__name__} as a layer."
    members = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__doc__": doc, "__module__": "ebb.nn"}
    return type(name, (Module,), members)


def add_layers(namespace):
    """Puts the classes into ebb.nn's namespace; nn/__init__.py, which has Module, calls this."""

    def layer(name, function, *parameters, **defaults):
        namespace[name] = stateless(namespace["Module"], name, function, *parameters, **defaults)

    layer("ReLU", _core.relu, inplace=False)
    layer("ReLU6", _core.relu6, inplace=False)
    layer("LeakyReLU", _core.leaky_relu, negative_slope=0.01, inplace=False)
    layer("ELU", _core.elu, alpha=1.0, inplace=False)
    layer("SELU", _core.selu, inplace=False)
    layer("CELU", _core.celu, alpha=1.0, inplace=False)
    layer("GELU", _core.gelu, approximate="none")
    layer("SiLU", _core.silu, inplace=False)
    layer("Mish", _core.mish, inplace=False)
    layer("Sigmoid", _core.sigmoid)
    layer("LogSigmoid", _core.log_sigmoid)
    layer("Tanh", _core.tanh)
    layer("Softplus", _core.softplus, beta=1.0, threshold=20.0)
    layer("Softsign", _core.softsign)
    layer("Hardtanh", _core.hardtanh, min_val=-1.0, max_val=1.0, inplace=False, min_value=None, max_value=None)
    layer("Hardsigmoid", _core.hardsigmoid, inplace=False)
    layer("Hardswish", _core.hardswish, inplace=False)
    layer("Hardshrink", _core.hardshrink, lambd=0.5)
    layer("Softshrink", _core.softshrink, lambd=0.5)
    layer("Tanhshrink", _core.tanhshrink)
    layer("Threshold", _core.threshold, "threshold", "value", inplace=False)
    layer("Softmax", _core.softmax, axis=-1)
    layer("LogSoftmax", _core.log_softmax, axis=-1)
    layer("GLU", _core.glu, axis=-1)
    layer("Swiglu", _core.swiglu, axis=-1)
    layer("Geglu", _core.geglu, axis=-1)
    layer("Reglu", _core.reglu, axis=-1)
    layer("Flatten", _core.flatten, first=1, last=-1)
    layer("GlobalAvgPool", _core.global_avg_pool)
    layer("GlobalMaxPool", _core.global_max_pool)
    for alias, name in ALIASES.items():
        namespace[alias] = namespace[name]
    pool, average = dict(stride=None, padding=0), dict(ceil_mode=False, count_include_pad=True)
    for axes in (1, 2, 3):
        most = {**pool, "dilation": 1, "return_indices": False, "ceil_mode": False}
        layer(f"MaxPool{axes}d", getattr(_core, f"max_pool{axes}d"), "kernel_size", **most)
        mean = {**pool, **average, **({} if axes == 1 else {"divisor_override": None})}
        layer(f"AvgPool{axes}d", getattr(_core, f"avg_pool{axes}d"), "kernel_size", **mean)
        layer(f"AdaptiveAvgPool{axes}d", getattr(_core, f"adaptive_avg_pool{axes}d"), "output_size")
        most = getattr(_core, f"adaptive_max_pool{axes}d")
        layer(f"AdaptiveMaxPool{axes}d", most, "output_size", return_indices=False)
