# SPDX-License-Identifier: MIT
"""Convolutions of lines, pictures and volumes as layers, with the arguments of torch.nn's."""

import math

from .. import _core, compat
from .._core import _init


def make(Module, Parameter):
    """Conv1d, 2d and 3d, ConvTranspose1d, 2d and 3d."""

    class _Convolution(Module):
        """What they have in common. The axes of the weight are [out, in/groups, kernel...], of a transposed one [in, out/groups,
        kernel...]; it begins uniform in ±1/√(numbers that an output is made of)."""

        axes = 0
        transposed = False

        def _begin(self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, mode, device, dtype):
            name = type(self).__name__
            if groups < 1 or in_channels % groups or out_channels % groups:
                raise ValueError(f"{name}: {groups} groups do not divide {in_channels} and {out_channels} channels")
            self.in_channels, self.out_channels, self.groups, self.padding_mode = in_channels, out_channels, groups, mode
            self.kernel_size, self.stride, self.dilation = (self._each(s) for s in (kernel_size, stride, dilation))
            self.padding = padding if isinstance(padding, str) else self._each(padding)
            first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
            shape = (first, second // groups, *self.kernel_size)
            bound = 1 / math.sqrt(max(1, math.prod(shape[1:])))
            self.weight = Parameter(_init.uniform(shape, -bound, bound, dtype or _core.f32))
            self.bias = Parameter(_init.uniform((out_channels,), -bound, bound, dtype or _core.f32)) if bias else None
            if device is not None:
                self.to(device)

        def _each(self, sizes):
            """A size for each axis."""
            sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
            sizes = sizes * self.axes if len(sizes) == 1 else sizes
            if len(sizes) != self.axes:
                raise ValueError(f"{type(self).__name__}: takes a number or {self.axes} of them, got {sizes}")
            return sizes

        def _call(self, kind, input, *options):
            """The function, of which conv1d takes numbers."""
            options = [o[0] if self.axes == 1 and isinstance(o, tuple) else o for o in options]
            return getattr(compat, f"{kind}{self.axes}d")(input, self.weight, self.bias, *options)

        def extra_repr(self):
            """The arguments, for repr()."""

            def shown(sizes):
                return sizes[0] if isinstance(sizes, tuple) and len(set(sizes)) == 1 else sizes

            parts = [f"in_channels={self.in_channels}, out_channels={self.out_channels}"]
            parts += [f"{name}={shown(getattr(self, name))!r}" for name in ("kernel_size", "stride", "padding", "dilation")]
            parts.append(f"groups={self.groups}, bias={self.bias is not None}")
            return ", ".join(parts + ([] if self.padding_mode == "zeros" else [f"padding_mode={self.padding_mode!r}"]))

        def __repr__(self):
            return f"{type(self).__name__}({self.extra_repr()})"

    class _Conv(_Convolution):
        def __init__(
            self,
            in_channels,
            out_channels,
            kernel_size,
            stride=1,
            padding=0,
            dilation=1,
            groups=1,
            bias=True,
            padding_mode="zeros",
            device=None,
            dtype=None,
        ):
            if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
                raise ValueError(
                    f"{type(self).__name__}: padding_mode is 'zeros', 'reflect', 'replicate' or 'circular', got {padding_mode!r}"
                )
            shape = (in_channels, out_channels, kernel_size, stride, padding, dilation, groups)
            self._begin(*shape, bias, padding_mode, device, dtype)

        def _around(self):
            """How much each side is padded, the last axis first."""
            if self.padding == "valid":
                return (0,) * (2 * self.axes)
            if self.padding == "same":
                totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size)]
                return tuple(side for t in reversed(totals) for side in (t // 2, t - t // 2))
            return tuple(side for p in reversed(self.padding) for side in (p, p))

        def forward(self, input):
            """The convolution."""
            padding = self.padding
            if self.padding_mode != "zeros":
                input, padding = compat.pad(input, self._around(), self.padding_mode), 0
            return self._call("conv", input, self.stride, padding, self.dilation, self.groups)

    class _ConvTranspose(_Convolution):
        transposed = True

        def __init__(
            self,
            in_channels,
            out_channels,
            kernel_size,
            stride=1,
            padding=0,
            output_padding=0,
            groups=1,
            bias=True,
            dilation=1,
            padding_mode="zeros",
            device=None,
            dtype=None,
        ):
            if padding_mode != "zeros":
                raise ValueError(f"{type(self).__name__}: padding_mode is 'zeros', got {padding_mode!r}")
            shape = (in_channels, out_channels, kernel_size, stride, padding, dilation, groups)
            self._begin(*shape, bias, padding_mode, device, dtype)
            self.output_padding = self._each(output_padding)

        def forward(self, input, output_size=None):
            """The transposed convolution; output_size chooses among the sizes that a convolution makes equal."""
            further = self.output_padding
            if output_size is not None:
                sizes = tuple(output_size)[-self.axes :]
                least = [
                    (n - 1) * s - 2 * p + d * (k - 1) + 1
                    for n, s, p, d, k in zip(
                        input.shape[-self.axes :], self.stride, self.padding, self.dilation, self.kernel_size
                    )
                ]
                further = tuple(size - low for size, low in zip(sizes, least))
                if any(not 0 <= f < max(s, d) for f, s, d in zip(further, self.stride, self.dilation)):
                    raise ValueError(f"{type(self).__name__}: an output of {sizes} is not possible, the least is {tuple(least)}")
            return self._call("conv_transpose", input, self.stride, self.padding, further, self.groups, self.dilation)

    made, shapes = [], {1: "lines [N, C, L]", 2: "pictures [N, C, H, W]", 3: "volumes [N, C, D, H, W]"}
    for axes, what in shapes.items():
        for base, name, doc in (
            (_Conv, f"Conv{axes}d", f"A convolution of {what}."),
            (_ConvTranspose, f"ConvTranspose{axes}d", f"A transposed convolution of {what}."),
        ):
            made.append(type(name, (base,), {"axes": axes, "__doc__": doc, "__module__": "ebb.nn"}))
    return made
