# SPDX-License-Identifier: MIT
"""The device that is measured: what it is, how fast it copies and multiplies, how much memory a call takes."""

import gc
import platform
import shutil
import subprocess

import torch

import ebb
from gpu import timing

SPECIAL_FUNCTIONS_PER_CLOCK = 16  # of a multiprocessor: exp2, log2, reciprocal, root (compute capability 8.0 to 9.0)


class Machine:
    def __init__(self, name, quick):
        self.device, self.quick = torch.device(name), quick
        self.on_gpu = self.device.type == "cuda"
        self.small = quick and not self.on_gpu  # only to see whether everything runs

    def synchronize(self):
        if self.on_gpu:
            torch.cuda.synchronize()
            ebb.cuda.synchronize()

    def empty_caches(self):
        gc.collect()  # a model and its optimiser refer to each other
        if self.on_gpu:
            torch.cuda.empty_cache()
            ebb.cuda.empty_cache()

    def peak_bytes(self, call):
        """What a call takes beyond what is there before it, its results included, in PyTorch's pool and Ebb's."""
        if not self.on_gpu:
            return None
        self.empty_caches()
        before = self.allocated()
        torch.cuda.reset_peak_memory_stats()
        ebb.cuda.reset_peak_memory_stats()
        kept = call()
        self.synchronize()
        peak = torch.cuda.max_memory_allocated() + ebb.cuda.max_memory_allocated() - before
        del kept
        return peak

    def allocated(self):
        return torch.cuda.memory_allocated() + ebb.cuda.memory_allocated() if self.on_gpu else 0

    def name(self):
        return torch.cuda.get_device_name() if self.on_gpu else platform.processor() or platform.machine()

    def copy_bytes_per_second(self, rounds):
        n = 1 << (16 if self.small else 28)
        source = torch.randn(n, device=self.device)
        target = torch.empty_like(source)
        found = timing.medians(self, {"copy": lambda: target.copy_(source)}, rounds)["copy"]
        return 2 * 4 * n / found["median_s"]

    def product_flops_per_second(self, rounds):
        """Of cuBLAS, bf16 with f32 sums."""
        n = 128 if self.small else 8192
        a, b, c = (torch.randn(n, n, device=self.device, dtype=torch.bfloat16) for _ in range(3))
        found = timing.medians(self, {"product": lambda: torch.matmul(a, b, out=c)}, rounds)["product"]
        return 2 * n**3 / found["median_s"]

    def special_functions_per_second(self):
        """The most exponentials, logarithms, reciprocals and roots at the highest clock; None where it is not known."""
        if not self.on_gpu or torch.cuda.get_device_capability()[0] not in (8, 9) or not shutil.which("nvidia-smi"):
            return None
        asked = ["nvidia-smi", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits", "--id=0"]
        answer = subprocess.run(asked, capture_output=True, text=True).stdout.strip()
        if not answer.isdigit():
            return None
        multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
        return multiprocessors * SPECIAL_FUNCTIONS_PER_CLOCK * int(answer) * 1e6

    def driver(self):
        if not shutil.which("nvidia-smi"):
            return None
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
        return subprocess.run(asked, capture_output=True, text=True).stdout.strip() or None


def in_ebb(tensor):
    return ebb.from_dlpack(tensor.detach())
