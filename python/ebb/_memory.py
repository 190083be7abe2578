# SPDX-License-Identifier: MIT
"""How much memory computations may take."""

import contextlib
import re

from . import _core

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def _bytes(size):
    """6442450944, "6 GiB" or "1.5 GB" as a number of bytes."""
    if not isinstance(size, str):
        return int(size)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", size)
    if not found or found[2].lower() not in _UNITS:
        raise ValueError(f"memory_budget: '{size}' is not a size; write '6 GiB', '500 MB' or a number of bytes")
    return int(float(found[1]) * _UNITS[found[2].lower()])


@contextlib.contextmanager
def memory_budget(size, device=None):
    """How much memory a computation should take within the scope, its inputs and results included.

    size: bytes, or a text such as "6 GiB" or "500 MB". Computations that would take more are planned otherwise: large
    products, and what is made of them row by row, in shorter strips. MemoryError where even that does not suffice. It
    holds for all threads.
    device: whose memory; that of the default device unless given.
    """
    device = _core.default_device() if device is None else device
    before = _core._memory_budget(device)
    _core.set_memory_budget(_bytes(size), device)
    try:
        yield
    finally:
        _core.set_memory_budget(before, device)
