# SPDX-License-Identifier: MIT
"""What the comparison needs around it: the peers' virtual environment, Ebb's build, and the machine in words."""

import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def peers_python():
    """A Python with the newest PyTorch, JAX and MLX; EBB_BENCH_PYTHON names one that is there already."""
    given = os.environ.get("EBB_BENCH_PYTHON")
    if given:
        return given
    folder = ROOT / ".venv-bench"
    python = folder / "bin" / "python"
    complete = folder / "complete"
    if not complete.exists():
        print("Making .venv-bench with the newest PyTorch, JAX and MLX (a few gigabytes, once)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        mlx = "mlx" if sys.platform == "darwin" else "mlx[cpu]"
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--upgrade", "pip"], check=True)
        for package in (["numpy", "setuptools"], ["torch"], ["jax"], [mlx]):
            # A peer that this machine cannot have is left out of the table, not of the run.
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--upgrade", *package], check=False)
        complete.touch()
    return str(python)


def build_worker(targets=("ebb_bench_worker", "ebb_bench_start")):
    """The folder of the build, with these programs in it."""
    given = os.environ.get("EBB_BENCH_BUILD")
    folder = Path(given) if given else ROOT / "build" / "release"
    if not given:
        if not (folder / "build.ninja").exists():
            subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True)
        subprocess.run(["cmake", "--build", str(folder), "--target", *targets], check=True)
    return folder


def versions(python):
    found = {}
    for module, title in (("torch", "PyTorch"), ("jax", "JAX"), ("mlx.core", "MLX"), ("numpy", "NumPy")):
        code = f"import {module} as m; print(m.__version__)"
        run = subprocess.run([python, "-c", code], capture_output=True, text=True)
        found[title] = run.stdout.strip() if run.returncode == 0 else None
    return found


def first_line(command):
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()[0].strip()
    except (OSError, IndexError):
        return ""


def machine(threads):
    described = {"system": platform.system(), "architecture": platform.machine(), "threads": threads}
    try:
        fields = {}
        for line in subprocess.run(["lscpu"], capture_output=True, text=True).stdout.splitlines():
            name, _, value = line.partition(":")
            fields[name.strip()] = value.strip()
        described["processor"] = fields.get("Model name", "")
        if "CPU family" in fields:  # what a virtual machine calls itself may say nothing
            described["model"] = f"family {fields['CPU family']} model {fields.get('Model', '')}"
        described["cores"] = fields.get("CPU(s)", "")
        if fields.get("Thread(s) per core", "1") != "1":
            described["threads per core"] = fields["Thread(s) per core"]
        for cache in ("L1d cache", "L2 cache", "L3 cache"):
            if cache in fields:
                described[cache] = fields[cache]
    except OSError:
        described["processor"] = platform.processor()
    try:
        described["memory"] = f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
        described["load before"] = f"{os.getloadavg()[0]:.2f}"
    except (OSError, ValueError):
        pass
    described["compiler"] = first_line(["c++", "--version"])
    described["commit"] = first_line(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"])
    return described
