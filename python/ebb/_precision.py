# SPDX-License-Identifier: MIT
"""How many digits products of f32 have on GPUs, by PyTorch's names."""

from . import _core


def set_float32_matmul_precision(precision):
    """Digits of the factors in products and convolutions of f32 on GPUs.

    "highest", as at start: all 24. "high" or "medium": 11, those of TF32, which is several times as fast; sums stay f32.
    For products started from now on, in all threads.
    """
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f'set_float32_matmul_precision: {precision!r} is not a precision; use "highest", "high" or "medium"')
    _core.set_tf32(precision != "highest")


def get_float32_matmul_precision():
    """ "high" where products of f32 on GPUs may have the digits of TF32, else "highest"."""
    return "high" if _core.tf32() else "highest"
