# SPDX-License-Identifier: MIT
"""cuda:0 for tests: a GPU where there is one, else the emulated device of the build folder."""

import ctypes
import os

import ebb


class EmulatedDevice:
    """Host memory behind the driver's functions; it remembers what its streams were asked for."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.ebb_emulated_new_stream.restype = ctypes.c_void_p
        tables = [ctypes.c_void_p() for _ in range(3)]
        self.library.ebb_emulated_tables(*(ctypes.byref(table) for table in tables))
        ebb._core._install_cuda(*(table.value for table in tables))

    def stream_calls(self):
        """What was asked since the last call: ["record 1", "wait 2"], by the streams' numbers."""
        text = ctypes.create_string_buffer(1 << 20)
        self.library.ebb_emulated_stream_calls(text, len(text))
        return text.value.decode().splitlines()

    def new_stream(self):
        return self.library.ebb_emulated_new_stream()

    def capture(self, stream, on):
        self.library.ebb_emulated_capture(ctypes.c_void_p(stream), on)


def number(stream):
    """How stream_calls() calls a stream of the emulated device."""
    return stream // 16


def find():
    """The emulated device, or None where there is a GPU. Without both it is an error."""
    if ebb.cuda.is_available():
        return None
    path = os.environ.get("EBB_EMULATED_GPU")
    if not path:
        raise RuntimeError("tests of CUDA need a GPU, or EBB_EMULATED_GPU, which ctest sets")
    device = EmulatedDevice(path)
    assert ebb.cuda.is_available()
    return device
