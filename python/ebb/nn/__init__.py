# SPDX-License-Identifier: MIT
"""Layers and models. A model is a Module with tensors and layers as attributes:

    class Mlp(ebb.nn.Module):
        def __init__(self):
            self.first, self.second = ebb.nn.Linear(784, 256), ebb.nn.Linear(256, 10)

        def forward(self, x):
            return self.second(ebb.relu(self.first(x)))

    grads = ebb.backward(ebb.cross_entropy(model(x), labels))
    optimizer.step(model, grads)              # the model has new parameters

A tensor that is an attribute is trained, an nn.Buffer is saved but not trained; layers, models, lists and dicts of them
are gone into. Names are joined by dots, "first.weight", as in PyTorch.
"""

import collections
import collections.abc
import copy

from .. import _core, _elsewhere
from .._core import _init as init
from .._core import _models, _nn
from . import _attention, _convolutions, _function_layers, _further, _loss_layers
from .._core._nn import (  # noqa: F401
    BatchNorm,
    Dropout,
    Embedding,
    GroupNorm,
    Gru,
    InstanceNorm,
    LayerNorm,
    Linear,
    Lstm,
    Prelu,
    RMSNorm,
    Rnn,
    TransformerBlock,
)

BatchNorm1d = BatchNorm2d = BatchNorm3d = BatchNorm
PReLU = Prelu


_LoadedState = collections.namedtuple("LoadedState", ["missing_keys", "unexpected_keys"])


class Buffer:
    """A tensor that belongs to a model but is not trained: running statistics, a mask, a table of positions.

    A tensor that is an attribute of a Module is trained; an nn.Buffer is left alone by optimisers and is saved and
    loaded with the parameters. Its tensor is `value`, which forward() may replace:

        self.steps = nn.Buffer(ebb.tensor(0))
        self.steps.value = self.steps.value + 1
    """

    def __init__(self, value):
        self.value = _core.asarray(value)

    def __repr__(self):
        return f"Buffer(shape={tuple(self.value.shape)}, dtype={self.value.dtype})"


def Parameter(x):
    """A variable with the value of x: what a model's own tensors should be."""
    return _core.variable(_core.asarray(x))


def _walk(node, prefix=""):
    """(name, whether it is trained, tensor, function that replaces it) of every tensor of a model."""
    members = getattr(type(node), "_members", None)
    if members is not None:
        trained, kept = members(node)
        for names, is_trained in ((trained, True), (kept, False)):
            for name, tensor in names:
                yield prefix + name, is_trained, tensor, lambda new, name=name: node._assign(name, new)
        return
    if isinstance(node, dict):
        items, store = node.items(), node.__setitem__
    elif isinstance(node, (list, tuple)):
        items, store = enumerate(node), getattr(node, "__setitem__", None)
    elif isinstance(node, Sequential):  # named by position, "0.weight", as in PyTorch
        items, store = enumerate(node.layers), node.layers.__setitem__
    elif isinstance(node, Module):
        items, store = vars(node).items(), lambda key, new: setattr(node, key, new)
    else:
        return
    for key, value in list(items):
        name = f"{prefix}{key}"
        if isinstance(value, _core.Tensor):
            yield name, True, value, lambda new, key=key: store(key, new)
        elif isinstance(value, Buffer):
            yield name, False, value.value, lambda new, value=value: setattr(value, "value", new)
        else:
            yield from _walk(value, name + ".")


def _trained(node):
    """What _walk gives of the tensors that are trained, each variable once: where layers share one (self.head.weight =
    self.embed.weight) it has its first name, and all of them get what replaces it."""
    found = {}
    for name, trained, tensor, assign in _walk(node):
        if trained:
            found.setdefault(hash(tensor), (name, True, tensor, []))[3].append(assign)
    return [(*member, _to_all(assign)) for *member, assign in found.values()]


def _to_all(assigns):
    if len(assigns) == 1:
        return assigns[0]

    def assign(new):
        for each in assigns:
            each(new)

    return assign


def _replace(node, make):
    """Gives a model make(name, trained, tensor) for each of its tensors; layers that share a variable share the new one."""
    made = {}
    for name, trained, tensor, assign in list(_walk(node)):
        new = make(name, trained, tensor)
        assign(made.setdefault(hash(tensor), new) if trained else new)


def _layers(node, prefix=""):
    """(name, layer) of a model and of everything in it that is a layer or a model, the model itself first."""
    if isinstance(node, dict):
        items = node.items()
    elif isinstance(node, (list, tuple)):
        items = enumerate(node)
    elif isinstance(node, Sequential):
        items = enumerate(node.layers)
    elif isinstance(node, Module):
        items = vars(node).items()
    else:
        items = ()
    if isinstance(node, Module) or hasattr(type(node), "_members"):
        yield prefix, node
    for key, value in list(items):
        yield from _layers(value, f"{prefix}.{key}" if prefix else str(key))


def _set_training(node, on):
    if hasattr(type(node), "_members"):
        node._set_training(on)
    elif isinstance(node, dict):
        for value in node.values():
            _set_training(value, on)
    elif isinstance(node, (list, tuple)):
        for value in node:
            _set_training(value, on)
    elif isinstance(node, Module):
        node.__dict__["training"] = on
        for value in vars(node).values():
            _set_training(value, on)


def _layer_repr(layer):
    """A layer of the library as it was made: Linear(in_features=784, out_features=256, bias=True)."""
    given = ", ".join(f"{name}={value!r}" for name, value in _nn._arguments(layer).items())
    return f"{type(layer).__name__}({given})"


def _is_shown(value):
    if isinstance(value, (list, tuple)):
        return any(_is_shown(each) for each in value)
    if isinstance(value, dict):
        return any(_is_shown(each) for each in value.values())
    return isinstance(value, (_core.Tensor, Buffer, Module)) or hasattr(type(value), "_members")


def _shown(node):
    """(name, member) of a model's members that repr() shows: tensors, layers, and lists and dicts of them."""
    members = enumerate(node.layers) if isinstance(node, Sequential) else vars(node).items()
    return [(key, value) for key, value in members if _is_shown(value)]


def _indented(value):
    if isinstance(value, _core.Tensor):
        return f"Tensor(shape={tuple(value.shape)}, dtype={value.dtype})"
    if isinstance(value, (list, tuple, dict)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        lines = [f"({key}): {_indented(each)}".replace("\n", "\n  ") for key, each in items]
        return f"{type(value).__name__}(\n    " + "\n    ".join(lines) + "\n  )"
    return repr(value).replace("\n", "\n  ")


def _place_and_dtype(*args, device=None, dtype=None, non_blocking=False):
    """The device's name and the dtype among the arguments of to()."""
    for given in args:
        if isinstance(given, _core.Tensor):
            device, dtype = given.device, given.dtype
        elif isinstance(given, _core.DType):
            dtype = given
        elif str(given).startswith(("cpu", "cuda")):
            device = given
        elif given is not None:
            dtype = _core.dtype(str(given))
    return None if device is None else str(_core.device(device)), dtype


class Module:
    """The base of models: give it tensors and layers as attributes and a method forward."""

    training = True

    def forward(self, *args, **kwargs):
        """What a call computes; every model has its own."""
        raise NotImplementedError(f"{type(self).__name__} has no method forward")

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def extra_repr(self):
        """What repr() prints beside the class's name."""
        return ""

    def __repr__(self):
        inner = [f"({key}): {_indented(value)}" for key, value in _shown(self)]
        extra = self.extra_repr()
        if not inner:
            return f"{type(self).__name__}({extra})"
        lines = ([extra] if extra else []) + inner
        return f"{type(self).__name__}(\n  " + "\n  ".join(lines) + "\n)"

    def named_parameters(self):
        """(name, tensor) of everything that is trained; what layers share is there once."""
        return [(name, tensor) for name, _, tensor, _ in _trained(self)]

    def parameters(self):
        """Everything that is trained."""
        return [tensor for _, tensor in self.named_parameters()]

    def named_buffers(self):
        """(name, tensor) of what is saved but not trained."""
        return [(name, tensor) for name, trained, tensor, _ in _walk(self) if not trained]

    def named_modules(self):
        """(name, layer) of the model itself, named "", and of every layer and model in it."""
        return list(_layers(self))

    def modules(self):
        """The model itself and every layer and model in it."""
        return [layer for _, layer in _layers(self)]

    def children(self):
        """The layers and models directly in this one, and those in lists and dicts of it."""
        found, inside = [], set()
        for _, layer in list(_layers(self))[1:]:
            if id(layer) not in inside:
                found.append(layer)
            inside.update(id(each) for _, each in list(_layers(layer))[1:])
        return found

    def apply(self, fn):
        """Calls fn with every layer and model in it, then with itself; returns itself."""
        for layer in reversed(self.modules()):
            fn(layer)
        return self

    def state_dict(self):
        """Parameters and buffers by name, for saving."""
        return {name: tensor for name, _, tensor, _ in _walk(self)}

    def load_state_dict(self, state, strict=True):
        """Takes parameters and buffers by name; every one must be there, with its shape.

        With strict=False those that are missing stay what they are, and those that the model does not have are ignored.
        Returns the names of both, as missing_keys and unexpected_keys.
        """
        if not isinstance(state, collections.abc.Mapping):
            raise TypeError(
                f"load_state_dict: takes tensors by name, got {type(state).__name__}; "
                "ebb.io.load_safetensors(path) reads them from a file"
            )
        own = list(_walk(self))
        names = {name for name, *_ in own}
        missing, unknown = sorted(names - set(state)), sorted(set(state) - names)
        if strict and (missing or unknown):
            raise ValueError(f"load_state_dict: missing {missing or 'nothing'}, unknown {unknown or 'nothing'}")
        for name, _, tensor, _ in own:
            if name not in state:
                continue
            shape = tuple(_core.asarray(state[name]).shape)
            if shape != tuple(tensor.shape):
                raise ValueError(f"load_state_dict: {name} has shape {shape}, the model's {tuple(tensor.shape)}")

        def loaded(name, trained, tensor):
            if name not in state:
                return tensor
            new = _core.asarray(state[name])
            return _core.variable(new.cast(tensor.dtype)) if trained else new

        _replace(self, loaded)
        return _LoadedState(missing, unknown)

    def train(self, mode=True):
        """Training, as models are made, or (False) use: dropout and batch norms behave accordingly."""
        _set_training(self, mode)
        return self

    def eval(self):
        """Use instead of training."""
        return self.train(False)

    def parameter_count(self):
        """How many numbers are trained."""
        return sum(tensor.size for tensor in self.parameters())

    def to(self, *args, **kwargs):
        """Moves parameters and buffers to a device, or casts those of floats to a dtype, or both; returns itself."""
        device, dtype = _place_and_dtype(*args, **kwargs)

        def moved(_, trained, tensor):
            new = tensor.detach() if device is None else tensor.detach().to(device)
            if dtype is not None and tensor.dtype.is_floating:
                new = new.cast(dtype)
            return _core.variable(new) if trained else new

        _replace(self, moved)
        return self

    def float(self):
        """Casts parameters and buffers of floats to f32; returns itself."""
        return self.to(_core.f32)

    def double(self):
        """Casts parameters and buffers of floats to f64; returns itself."""
        return self.to(_core.f64)

    def half(self):
        """Casts parameters and buffers of floats to f16; returns itself."""
        return self.to(_core.f16)

    def bfloat16(self):
        """Casts parameters and buffers of floats to bf16; returns itself."""
        return self.to(_core.bf16)

    def cpu(self):
        """Moves parameters and buffers to the host's memory; returns itself."""
        return self.to("cpu")

    def cuda(self, device=None):
        """Moves parameters and buffers to a GPU, the first one or the one with this number; returns itself."""
        return self.to("cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device)


def _set_tensor(self, name, new):
    """layer.weight = x: a tensor of a layer is replaced, by a variable where it is trained."""
    if not isinstance(new, _core.Tensor):
        object.__setattr__(self, name, new)
        return
    for own, trained, old, assign in _walk(self):
        if own == name:
            if tuple(new.shape) != tuple(old.shape):
                raise ValueError(f"{type(self).__name__}: {name} has shape {tuple(old.shape)}, got {tuple(new.shape)}")
            assign(new)
            return
    raise AttributeError(f"{type(self).__name__}: it has no tensor {name!r}, only {[own for own, *_ in _walk(self)]}")


def _remade(layer, arguments, state, training):
    made = layer(**arguments)
    for name, trained, _, assign in list(_walk(made)):
        assign(state[name])
    _set_training(made, training)
    return made


def _reduce_layer(self):
    """How a layer is pickled: its arguments, and its tensors by name."""
    tensors = {name: tensor for name, _, tensor, _ in _walk(self)}
    return _remade, (type(self), dict(_nn._arguments(self)), tensors, self.training)


# Layers and models of the library are modules, too.
for _layer in [*vars(_nn).values(), *vars(_models).values()]:
    if isinstance(_layer, type):
        for _method in (
            "named_parameters",
            "parameters",
            "named_buffers",
            "named_modules",
            "modules",
            "children",
            "apply",
            "float",
            "double",
            "half",
            "bfloat16",
            "state_dict",
            "load_state_dict",
            "train",
            "eval",
            "parameter_count",
            "to",
            "cpu",
            "cuda",
        ):
            setattr(_layer, _method, vars(Module)[_method])
        _layer.__repr__ = _layer_repr
        _layer.__reduce__ = _reduce_layer
        _layer.__setattr__ = _set_tensor

MultiheadAttention = _attention.make(Module, Parameter)
for _layer in _convolutions.make(Module, Parameter):
    globals()[_layer.__name__] = _layer


def _copied(self, memo=None):
    """A copy of a layer of the library that Python has given further methods: of the same class."""
    return _remade(*_reduce_layer(self)[1])


def _instance_norm(axes):
    def __call__(self, input):
        alone = input.ndim == axes + 1  # a sequence, picture or volume without a batch
        y = InstanceNorm.__call__(self, input.unsqueeze(0) if alone else input)
        return y.squeeze(0) if alone else y

    doc = f"torch.nn.InstanceNorm{axes}d: each channel of each element of the batch by itself."
    members = {"__call__": __call__, "__copy__": _copied, "__deepcopy__": _copied, "__doc__": doc, "__module__": __name__}
    return type(f"InstanceNorm{axes}d", (InstanceNorm,), members)


InstanceNorm1d, InstanceNorm2d, InstanceNorm3d = (_instance_norm(axes) for axes in (1, 2, 3))


def _recurrent(name, layer, *first):
    """A recurrent layer with PyTorch's arguments and defaults: time first, and sequences without a batch."""
    options = [*first, "bias", "batch_first", "dropout", "bidirectional", "proj_size"]
    defaults = {
        "nonlinearity": "tanh",
        "bias": True,
        "batch_first": False,
        "dropout": 0.0,
        "bidirectional": False,
        "proj_size": 0,
    }

    def __init__(self, input_size, hidden_size, num_layers=1, *args, device=None, dtype=None, **kwargs):
        if len(args) > len(options):
            raise TypeError(f"{name}: takes {3 + len(options)} arguments, got {3 + len(args)}")
        given = dict(zip(options, args), **kwargs)
        unknown = set(given) - set(options)
        if unknown:
            raise TypeError(f"{name}: takes {', '.join(options)}; unknown {sorted(unknown)}")
        given = {**defaults, **given}
        if given["proj_size"] and name != "LSTM":
            raise ValueError(f"{name}: proj_size is for an LSTM; put a Linear behind the layer")
        if input_size < 1:
            raise ValueError(f"{name}: input_size must be positive, got {input_size}")
        layer.__init__(self, input_size, hidden_size, num_layers, dtype=dtype or _core.f32, **given)
        self._batch_axis = 0 if given["batch_first"] else 1
        if device is not None:
            self.to(device)

    def __call__(self, input, hx=None):
        if input.ndim == 3:
            return layer.__call__(self, input, hx)

        def map_state(f, s):
            return tuple(map(f, s)) if isinstance(s, tuple) else f(s)

        if hx is not None:
            hx = map_state(lambda h: h.unsqueeze(1), hx)
        y, last = layer.__call__(self, input.unsqueeze(self._batch_axis), hx)
        return y.squeeze(self._batch_axis), map_state(lambda h: h.squeeze(1), last)

    doc = f"torch.nn.{name}, with its arguments and defaults; ebb.nn.{layer.__name__} is the same layer with the batch first."
    members = {"__init__": __init__, "__call__": __call__, "__doc__": doc, "__module__": __name__}
    return type(name, (layer,), {**members, "__copy__": _copied, "__deepcopy__": _copied})


RNN = _recurrent("RNN", Rnn, "nonlinearity")
LSTM = _recurrent("LSTM", Lstm)
GRU = _recurrent("GRU", Gru)


def cast_parameters(model, dtype):
    """A copy whose parameters are those of the model cast to dtype, as operations: gradients reach the originals.

    This is how mixed precision computes in halves and keeps f32 weights. Where calling the copy moves its buffers (running
    statistics), give them back with take_buffers.
    """
    half = copy.deepcopy(model)
    for _, trained, tensor, assign in _walk(half):
        if trained:
            assign(tensor.cast(dtype))
    return half


def take_buffers(model, other):
    """The buffers of a copy of the model become its own."""
    theirs = {name: tensor for name, trained, tensor, _ in _walk(other) if not trained}
    for name, trained, _, assign in _walk(model):
        if not trained:
            assign(theirs[name])


class Sequential(Module):
    """One layer after the other; anything that can be called with a tensor is a layer."""

    def __init__(self, *layers):
        for k, layer in enumerate(layers):
            if not callable(layer):
                words = f"Sequential: layer {k} is a {type(layer).__name__}, which cannot be called"
                several = {list: "*layers", tuple: "*layers", dict: "*layers.values()"}
                inside = next((f"; use Sequential({call})" for kind, call in several.items() if isinstance(layer, kind)), "")
                raise TypeError(words + inside)
        self.layers = list(layers)

    def forward(self, x):
        """x through every layer."""
        for layer in self.layers:
            x = layer(x)
        return x

    def __getitem__(self, index):
        return Sequential(*self.layers[index]) if isinstance(index, slice) else self.layers[index]

    def __len__(self):
        return len(self.layers)


class ModuleList(list):
    """A list of layers: a list of them that is an attribute of a model is one as well."""


class ModuleDict(dict):
    """A dict of layers: a dict of them that is an attribute of a model is one as well."""


ParameterList, ParameterDict = ModuleList, ModuleDict


for _add in (_function_layers.add_layers, _loss_layers.add_layers, _further.add_layers):
    _add(globals())
_elsewhere.explain(Module, _elsewhere.MODULE)
init.__getattr__ = _elsewhere.of_init
__getattr__ = _elsewhere.of_module("ebb.nn", _elsewhere.NN)
from . import functional  # noqa: E402, F401
