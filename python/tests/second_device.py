# SPDX-License-Identifier: MIT
"""A second device for tests: a GPU where there is one, else the host behind the seam of devices, with memory of its own."""

import ctypes
import os

import pytest

import ebb

NAME = "cuda:1"


def find():
    """Its name. Without a GPU and the library of the build folder it is an error."""
    if ebb.is_available(NAME):
        return NAME
    path = os.environ.get("EBB_EMULATED_GPU")
    if not path:
        if ebb.is_available("cuda:0"):
            return "cuda:0"
        if os.environ.get("EBB_BARE_SYSTEM"):  # make_wheel.sh
            pytest.skip("a bare system has neither a GPU nor the build folder's library", allow_module_level=True)
        raise RuntimeError("tests of a second device need a GPU, or EBB_EMULATED_GPU, which ctest sets")
    library = ctypes.CDLL(path)
    library.ebb_second_device.restype = ctypes.c_void_p
    ebb._core._install_backend(NAME, library.ebb_second_device(1))
    return NAME
