"""Where ebb.torch computes: in the host's memory; or on a GPU, in the order of PyTorch's current stream and with its memory.

PyTorch's caching allocator knows the order of its streams and keeps what a captured graph uses, so results and temporaries
come from it: nothing waits for the GPU, graphs can be captured, and torch.cuda.memory_stats() sees everything.
"""

import contextlib
import ctypes
import functools
from pathlib import Path

import torch

from . import _core

_HERE = contextlib.nullcontext()
_current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
    lambda index: torch.cuda.current_stream(index).cuda_stream
)


@functools.cache
def _c_functions():
    """Addresses of the allocator's C functions, which need no interpreter lock; zeros where PyTorch has none."""
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cuda.so"))
        names = (f"aoti_torch_cuda_caching_allocator_raw_{what}" for what in ("alloc", "delete"))
        return tuple(ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names)
    except (OSError, AttributeError):
        return 0, 0


@functools.cache
def _memory(stream):
    allocate, release = torch._C._cuda_cudaCachingAllocator_raw_alloc, torch._C._cuda_cudaCachingAllocator_raw_delete
    return _core._library_memory(allocate, release, stream, *_c_functions())


def place(tensors):
    """A scope in which Ebb computes where these tensors are."""
    for x in tensors:
        if x is not None and x.is_cuda:
            index = x.get_device()
            stream = _current_stream(index)
            return _core._OnStream(index, stream, _memory(stream))
    return _HERE


def stream_number(index):
    """PyTorch's current stream of a GPU as DLPack spells it."""
    return _current_stream(index) or 1
