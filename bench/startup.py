# SPDX-License-Identifier: MIT
"""What it costs to begin: from the start of a process to its first gradient, sizes, compile times."""

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import contenders
import setting

# Each does what start/first_gradient.cc does; the compiled forms show what a compiler adds.
PROGRAMS = {
    "PyTorch": "import torch; x = (torch.arange(1000.0) / 1000).requires_grad_(); (x * x).sum().backward(); "
               "print(x.grad[-1].item())",
    "torch.compile": "import torch; x = (torch.arange(1000.0) / 1000).requires_grad_(); "
                     "torch.compile(lambda x: (x * x).sum())(x).backward(); print(x.grad[-1].item())",
    "JAX jit": "import jax, jax.numpy as jnp; x = jnp.arange(1000.0) / 1000; "
               "print(jax.jit(jax.grad(lambda x: (x * x).sum()))(x)[-1])",
    "MLX compile": "import mlx.core as mx; x = mx.arange(1000.0) / 1000; "
                   "print(mx.compile(mx.grad(lambda x: (x * x).sum()))(x)[-1].item())",
}
IMPORTS = {"PyTorch": "torch", "JAX jit": "jax.numpy", "MLX compile": "mlx.core"}
FOLDERS = {"PyTorch": "torch", "JAX jit": "jaxlib", "MLX compile": "mlx"}


def wall(command, runs, threads, environment=None):
    """Median seconds of a whole process; None if it fails."""
    variables, pin = contenders.pinned(threads)
    variables.update(environment or {})
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        done = subprocess.run(command, env=variables, preexec_fn=pin, capture_output=True)
        taken.append(time.perf_counter() - start)
        if done.returncode != 0:
            return None
    return statistics.median(taken)


def folder_size(folder):
    return sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file() and not f.is_symlink())


def package_size(python, module):
    code = f"import importlib.util as u; print(list(u.find_spec('{module}').submodule_search_locations)[0])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return folder_size(done.stdout.strip()) if done.returncode == 0 else None


def stripped_size(library, scratch):
    copy = Path(scratch) / "stripped.so"
    shutil.copy(library, copy)
    subprocess.run(["strip", str(copy)], check=False)
    return copy.stat().st_size


def header_seconds(scratch, runs):
    source = Path(scratch) / "header.cc"
    source.write_text("#include <ebb/ebb.h>\n")
    compiler = os.environ.get("CXX", "c++")
    command = [compiler, "-std=c++20", "-O2", "-I", str(setting.ROOT / "include"), "-c", str(source), "-o", os.devnull]
    return wall(command, runs, 1)


def rows(build, python, options):
    runs = 3 if options.quick else 7
    titles = [contenders.PEERS[p][0] for p in options.peers]
    with tempfile.TemporaryDirectory(prefix="ebb-bench-") as scratch:
        fresh = {"TORCHINDUCTOR_CACHE_DIR": scratch}  # nothing compiled before
        begin = {"Ebb": wall([str(build / "bench" / "ebb_bench_start")], 5 * runs, options.threads[-1])}
        for title in titles:
            few = 1 if title == "torch.compile" else runs
            begin[title] = wall([python, "-c", PROGRAMS[title]], few, options.threads[-1], fresh)
        imports = {t: wall([python, "-c", f"import {IMPORTS[t]}"], runs, options.threads[-1])
                   for t in titles if t in IMPORTS}
        libraries = sorted(build.glob("libebb.so*")) + sorted(build.glob("libebb.dylib"))
        size = {"Ebb": stripped_size(libraries[-1].resolve(), scratch) if libraries else None}
        size.update({t: package_size(python, FOLDERS[t]) for t in titles if t in FOLDERS})
        header = {"Ebb": header_seconds(scratch, runs)}
    return [
        {"what": "process start to first gradient", "unit": "s", "values": begin},
        {"what": "import alone", "unit": "s", "values": imports},
        {"what": "size of the library (peers: the package)", "unit": "B", "values": size},
        {"what": "compiling a file that includes ebb/ebb.h", "unit": "s", "values": header},
    ]
