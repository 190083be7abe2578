# SPDX-License-Identifier: MIT
"""GPUs, by torch.cuda's names: how many there are, what they are called, how much memory tensors take.

Tensors are put on one by device="cuda", x.to("cuda:1") or `with ebb.device("cuda"):`.
"""

from . import _core

__all__ = [
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "is_available",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "synchronize",
]


def is_available():
    """Whether there is a GPU that can be used."""
    return _core.is_available("cuda")


def device_count():
    """How many GPUs there are."""
    return _core._gpu_count()


def current_device():
    """The number of the default device if it is a GPU, else 0."""
    return int(_name(None).partition(":")[2])


def _name(device):
    """'cuda:1' of a number, a name or a device; of nothing, the default device or the first GPU."""
    if device is None:
        default = _core.default_device()
        return default if default.startswith("cuda") else "cuda:0"
    name = f"cuda:{device}" if isinstance(device, int) else str(device)
    if not name.startswith("cuda"):
        raise ValueError(f"cuda: {name} is not a GPU; use cuda, cuda:N or a number")
    return name if ":" in name else f"{name}:0"


def get_device_name(device=None):
    """What a GPU is called, with its multiprocessors, compute capability and memory."""
    return _core._describe_gpu(int(_name(device).partition(":")[2]))


def synchronize(device=None):
    """Waits until everything that was started on the GPU is done, and raises what failed there."""
    _core.synchronize(_name(device))


def memory_stats(device=None):
    """Bytes of a GPU's tensor memory: live, peak, cached for reuse, and the limit (0: none)."""
    name = _name(device)
    _core.is_available(name)  # the pool is made with the device
    return _core.memory_stats(name)


def memory_allocated(device=None):
    """Bytes that tensors take now."""
    return memory_stats(device)["live"]


def max_memory_allocated(device=None):
    """The most bytes that tensors took since the start or reset_peak_memory_stats()."""
    return memory_stats(device)["peak"]


def memory_reserved(device=None):
    """Bytes that tensors take or that are kept for reuse."""
    stats = memory_stats(device)
    return stats["live"] + stats["cached"]


def reset_peak_memory_stats(device=None):
    """Makes max_memory_allocated what is allocated now."""
    _core.reset_peak_memory(_name(device))


def empty_cache(device=None):
    """Gives memory that is kept for reuse back to the driver."""
    _core.release_cached_memory(_name(device))
