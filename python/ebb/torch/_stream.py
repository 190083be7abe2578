# SPDX-License-Identifier: MIT
"""Where ebb.torch computes: in the host's memory; or on a GPU, in the order of PyTorch's current stream and with its memory.

PyTorch's caching allocator knows the order of its streams and what a captured graph keeps. So results and temporaries are
blocks of it: nothing waits for the GPU, graphs can be captured, and results are tensors like PyTorch's own.
"""

import contextlib
import functools

import torch

from .. import _core

_HERE = contextlib.nullcontext()
_blocks = {}  # tensors of bytes that Ebb uses, by address
_current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
    lambda index: torch.cuda.current_stream(index).cuda_stream
)


@functools.cache
def _memory(index):
    device = torch.device("cuda", index)

    def allocate(size):
        block = torch.empty(size, dtype=torch.uint8, device=device)
        address = block.data_ptr()
        _blocks[address] = block
        return address

    return _core._library_memory(allocate, _blocks.pop)


def place(tensors):
    """A scope in which Ebb computes where these tensors are."""
    for x in tensors:
        if x is not None and x.is_cuda:
            index = x.get_device()
            return _core._OnStream(index, _current_stream(index), _memory(index))
    return _HERE


def result(x, dtype):
    """A tensor that Ebb computed in such a scope, as PyTorch's own on the same memory; None where it is somebody else's."""
    address, offset = _core._memory_of(x)
    block = _blocks.get(address)
    if block is None:
        return None
    return torch.empty(0, dtype=dtype, device=block.device).set_(block.untyped_storage(), offset, x.shape)


def stream_number(index):
    """PyTorch's current stream of a GPU as DLPack spells it."""
    return _current_stream(index) or 1
