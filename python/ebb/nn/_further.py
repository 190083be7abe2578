# SPDX-License-Identifier: MIT
"""Layers of torch.nn that are a function with its arguments, or a few parameters around one."""

import math

from .. import _core, compat
from ._function_layers import stateless


def add_layers(namespace):
    """Puts the classes into ebb.nn's namespace; nn/__init__.py, which has Module, calls this."""
    Module, Parameter = namespace["Module"], namespace["Parameter"]
    own = []

    def layer(cls):
        cls.__module__, cls.__qualname__ = "ebb.nn", cls.__name__
        own.append(cls)
        return cls

    def of_function(name, function, *parameters, **defaults):
        own.append(stateless(Module, name, function, *parameters, **defaults))

    # ---- functions of one tensor
    for axes in (1, 2, 3):
        pooled = getattr(compat, f"lp_pool{axes}d")
        of_function(f"LPPool{axes}d", pooled, "norm_type", "kernel_size", stride=None, ceil_mode=False)
    of_function("Softmin", compat.softmin, dim=-1)
    of_function("PixelShuffle", _core.pixel_shuffle, "upscale_factor")
    of_function("PixelUnshuffle", _core.pixel_unshuffle, "downscale_factor")
    of_function("ChannelShuffle", compat.channel_shuffle, "groups")
    of_function("Unfold", _core.unfold, "kernel_size", dilation=1, padding=0, stride=1)
    of_function("Fold", _core.fold, "output_size", "kernel_size", dilation=1, padding=0, stride=1)
    of_function("LocalResponseNorm", compat.local_response_norm, "size", alpha=1e-4, beta=0.75, k=1.0)
    upsample = dict(size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None)
    of_function("Upsample", _core.interpolate, **upsample)
    of_function("UpsamplingNearest2d", compat.upsample_nearest, size=None, scale_factor=None)
    of_function("UpsamplingBilinear2d", compat.upsample_bilinear, size=None, scale_factor=None)

    @layer
    class Identity(Module):
        """Gives what it gets, whatever the arguments."""

        def __init__(self, *args, **kwargs):
            pass

        def forward(self, input):
            """The input."""
            return input

    @layer
    class Softmax2d(Module):
        """softmax over the channels of pictures [N, C, H, W] or [C, H, W]."""

        def forward(self, input):
            """The softmax."""
            return _core.softmax(input, -3)

    @layer
    class RReLU(Module):
        """leaky_relu with slopes drawn between lower and upper while training, their mean else."""

        def __init__(self, lower=1 / 8, upper=1 / 3, inplace=False):
            self.lower, self.upper = lower, upper

        def forward(self, input):
            """The function of the input."""
            return compat.rrelu(input, self.lower, self.upper, self.training)

        def extra_repr(self):
            """The arguments, for repr()."""
            return f"lower={self.lower}, upper={self.upper}"

    def unpooling(axes):
        unpool = getattr(compat, f"max_unpool{axes}d")

        def __init__(self, kernel_size, stride=None, padding=0):
            self.kernel_size, self.stride, self.padding = kernel_size, stride, padding

        def forward(self, input, indices, output_size=None):
            """The elements back at their positions, zeros elsewhere."""
            return unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

        def extra_repr(self):
            """The arguments, for repr()."""
            return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"

        members = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__doc__": unpool.__doc__}
        layer(type(f"MaxUnpool{axes}d", (Module,), members))

    for axes in (1, 2, 3):
        unpooling(axes)

    @layer
    class Unflatten(Module):
        """An axis divided into several."""

        def __init__(self, dim, unflattened_size):
            self.dim, self.unflattened_size = dim, tuple(unflattened_size)

        def forward(self, input):
            """The input with its axis divided."""
            return input.unflatten(self.dim, self.unflattened_size)

    # ---- padding: one number for every side, or one for each
    def padding(name, axes, mode, with_value=False):
        def __init__(self, padding, value=0.0):
            self.padding = (padding,) * (2 * axes) if isinstance(padding, int) else tuple(padding)
            self.value = value

        def forward(self, input):
            """The padded input."""
            if mode != "constant" and input.ndim not in (axes + 1, axes + 2):
                raise ValueError(f"{name}: needs [N, C, ...] or [C, ...] with {axes} axes behind, got {tuple(input.shape)}")
            return compat.pad(input, self.padding, mode, self.value)

        def extra_repr(self):
            """The arguments, for repr()."""
            return f"{self.padding}" + (f", value={self.value}" if with_value else "")

        members = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__doc__": f"pad with mode {mode!r}."}
        layer(type(name, (Module,), members))

    for axes in (1, 2, 3):
        padding(f"ConstantPad{axes}d", axes, "constant", True)
        padding(f"ZeroPad{axes}d", axes, "constant")
        padding(f"CircularPad{axes}d", axes, "circular")
        padding(f"ReflectionPad{axes}d", axes, "reflect")
        padding(f"ReplicationPad{axes}d", axes, "replicate")

    # ---- dropout
    def dropping(name, function):
        def __init__(self, p=0.5, inplace=False):
            if not 0 <= p <= 1:
                raise ValueError(f"{name}: p must be in [0, 1], got {p}")
            self.p = p

        def forward(self, input):
            """The input, of which a part is dropped while training."""
            return function(input, self.p, self.training)

        def extra_repr(self):
            """The arguments, for repr()."""
            return f"p={self.p}"

        doc = f"The function {function.__name__} as a layer, which drops only while training."
        layer(type(name, (Module,), {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__doc__": doc}))

    dropping("Dropout1d", compat.dropout1d)
    dropping("Dropout2d", _core.dropout2d)
    dropping("Dropout3d", compat.dropout3d)
    dropping("AlphaDropout", compat.alpha_dropout)
    dropping("FeatureAlphaDropout", compat.feature_alpha_dropout)

    # ---- two inputs
    @layer
    class CosineSimilarity(Module):
        """The cosine of the angle between two tensors along an axis."""

        def __init__(self, dim=1, eps=1e-8):
            self.dim, self.eps = dim, eps

        def forward(self, x1, x2):
            """The cosines."""
            return _core.cosine_similarity(x1, x2, self.dim, self.eps)

    @layer
    class PairwiseDistance(Module):
        """The p-norm of the difference of two tensors along the last axis."""

        def __init__(self, p=2.0, eps=1e-6, keepdim=False):
            self.p, self.eps, self.keepdim = p, eps, keepdim

        def forward(self, x1, x2):
            """The distances."""
            return _core.pairwise_distance(x1, x2, self.p, self.eps, self.keepdim)

    def put(made, device):
        if device is not None:
            made.to(device)

    def uniform(bound, *shape, dtype):
        return Parameter((_core.rand(shape, dtype) * 2 - 1) * bound)

    @layer
    class Bilinear(Module):
        """x1ᵀ·W_o·x2 + b_o for every output o."""

        def __init__(self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None):
            bound, dtype = 1 / math.sqrt(in1_features), dtype or _core.f32
            self.weight = uniform(bound, out_features, in1_features, in2_features, dtype=dtype)
            self.bias = uniform(bound, out_features, dtype=dtype) if bias else None
            put(self, device)

        def forward(self, input1, input2):
            """The outputs."""
            return compat.bilinear(input1, input2, self.weight, self.bias)

    # ---- tables
    @layer
    class EmbeddingBag(Module):
        """Sums, means or largest elements of the rows of a table that belong together."""

        def __init__(
            self,
            num_embeddings,
            embedding_dim,
            max_norm=None,
            norm_type=2.0,
            scale_grad_by_freq=False,
            mode="mean",
            sparse=False,
            include_last_offset=False,
            padding_idx=None,
            device=None,
            dtype=None,
        ):
            if max_norm is not None or scale_grad_by_freq:
                raise TypeError("EmbeddingBag: there is no max_norm and no scale_grad_by_freq")
            self.mode, self.include_last_offset, self.padding_idx = mode, include_last_offset, padding_idx
            self.weight = Parameter(_core.randn((num_embeddings, embedding_dim), dtype or _core.f32))
            put(self, device)

        def forward(self, input, offsets=None, per_sample_weights=None):
            """The bags."""
            return compat.embedding_bag(
                input,
                self.weight,
                offsets,
                mode=self.mode,
                per_sample_weights=per_sample_weights,
                include_last_offset=self.include_last_offset,
                padding_idx=self.padding_idx,
            )

    # ---- one step of a recurrent network
    class _Cell(Module):
        gates = 1

        def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
            bound, rows, dtype = 1 / math.sqrt(hidden_size), self.gates * hidden_size, dtype or _core.f32
            self.hidden_size = hidden_size
            self.weight_ih = uniform(bound, rows, input_size, dtype=dtype)
            self.weight_hh = uniform(bound, rows, hidden_size, dtype=dtype)
            self.bias_ih = uniform(bound, rows, dtype=dtype) if bias else None
            self.bias_hh = uniform(bound, rows, dtype=dtype) if bias else None
            put(self, device)

        def begun(self, input, state):
            """The state, zeros unless it is given."""
            if state is not None:
                expected = (*input.shape[:-1], self.hidden_size)
                if tuple(state.shape) != expected:
                    raise ValueError(f"{type(self).__name__}: the state has shape {tuple(state.shape)}, not {expected}")
                return state
            return _core.zeros((*input.shape[:-1], self.hidden_size), input.dtype)

        def parts(self, input, hidden):
            """What the gates get of the input and of the state before."""
            from_input = _core.linear(input, self.weight_ih, self.bias_ih)
            from_state = _core.linear(hidden, self.weight_hh, self.bias_hh)
            return _core.chunk(from_input, self.gates, -1), _core.chunk(from_state, self.gates, -1)

    @layer
    class RNNCell(_Cell):
        """One step of torch.nn.RNN: the next state."""

        def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
            if nonlinearity not in ("tanh", "relu"):
                raise ValueError(f"RNNCell: nonlinearity is 'tanh' or 'relu', got {nonlinearity!r}")
            _Cell.__init__(self, input_size, hidden_size, bias, device, dtype)
            self.nonlinearity = nonlinearity

        def forward(self, input, hx=None):
            """The next state."""
            (x,), (h,) = self.parts(input, self.begun(input, hx))
            return (_core.tanh if self.nonlinearity == "tanh" else _core.relu)(x + h)

    @layer
    class GRUCell(_Cell):
        """One step of torch.nn.GRU: the next state."""

        gates = 3

        def forward(self, input, hx=None):
            """The next state."""
            state = self.begun(input, hx)
            x, h = self.parts(input, state)
            reset, update = _core.sigmoid(x[0] + h[0]), _core.sigmoid(x[1] + h[1])
            return _core.lerp(_core.tanh(x[2] + reset * h[2]), state, update)

    @layer
    class LSTMCell(_Cell):
        """One step of torch.nn.LSTM: the next (state, cell)."""

        gates = 4

        def forward(self, input, hx=None):
            """The next state and cell."""
            state, cell = (self.begun(input, part) for part in hx or (None, None))
            x, h = self.parts(input, state)
            i, f, g, o = (a + b for a, b in zip(x, h))
            cell = _core.sigmoid(f) * cell + _core.sigmoid(i) * _core.tanh(g)
            return _core.sigmoid(o) * _core.tanh(cell), cell

    namespace.update((cls.__name__, cls) for cls in own)
