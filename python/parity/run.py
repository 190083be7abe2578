#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make parity: finds a Python with PyTorch and a package of Ebb for it, then runs beside_torch.py, keywords.py, compare.py, samples.py,
refusals.py, huggingface.py, decoders.py, matrix.py, the tests beside it (test_*.py, by pytest), the examples that need PyTorch and,
where there is a GPU, torch_cuda.py. Ends with a line for each of them.

EBB_BENCH_PYTHON names a Python that has PyTorch (else .venv-bench is made, as for make bench), EBB_PYTHON_PACKAGE a folder with
the package ebb built for it (else the build tree's, or one that pip builds from this repository).
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import setting  # noqa: E402


def works(python, folder):
    environment = dict(os.environ, PYTHONPATH=str(folder))
    return subprocess.run([python, "-c", "import ebb"], env=environment, capture_output=True).returncode == 0


def package_for(python):
    given = os.environ.get("EBB_PYTHON_PACKAGE")
    if given:
        return Path(given)
    built, own = ROOT / "build" / "release" / "python" / "package", ROOT / "build" / "parity"
    for folder in (built, own):
        if works(python, folder):
            return folder
    print("Building the package for the Python that has PyTorch", flush=True)
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(own), str(ROOT)], check=True
    )
    return own


# The models that ebb.torch.patch is tried on, and what PyTorch's own tests import.
NEEDED = ("transformers", "accelerate", "peft", "trl", "pytest", "expecttest", "hypothesis")


def require_packages(python):
    """Installed where the environment is one that make made."""
    if subprocess.run([python, "-c", "import " + ", ".join(NEEDED)], capture_output=True).returncode == 0:
        return
    if os.environ.get("EBB_BENCH_PYTHON"):
        sys.exit(f"make parity needs {', '.join(NEEDED)}: {python} -m pip install {' '.join(NEEDED)}")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *NEEDED], check=True)


def programs(with_gpu):
    here = Path(__file__).parent
    names = ["beside_torch", "keywords", "compare", "samples", "refusals", "huggingface", "decoders", "matrix"]
    found = [here / f"{name}.py" for name in names] + sorted(here.glob("test_*.py"))
    found += [ROOT / "examples" / "python" / name for name in ("torch_loss.py", "generate_and_score.py")]
    return found + [here / "torch_cuda.py"] * with_gpu


def run(python, program, environment):
    """(its exit code, the last line that it printed)"""
    by_pytest = ["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"] if program.name.startswith("test_") else []
    last = ""
    with subprocess.Popen([python, *by_pytest, str(program)], env=environment, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    nothing = by_pytest and process.returncode == 5  # a file that is skipped as a whole says so in its last line
    return 0 if nothing and "skipped" in last else process.returncode, last


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="PROGRAM", help="run these alone: compare, test_patch")
    options = parser.parse_args()
    python = setting.peers_python()
    environment = dict(os.environ, PYTHONPATH=str(package_for(python)), PYTHONUNBUFFERED="1")
    require_packages(python)
    with_gpu = subprocess.run([python, "-c", "import torch; exit(not torch.cuda.is_available())"]).returncode == 0
    chosen = {program.stem: program for program in programs(with_gpu)}
    unknown = [name for name in options.names if name not in chosen]
    if unknown:
        parser.error(f"there is no program {', '.join(unknown)}; there are {', '.join(chosen)}")
    results = {}
    for name in options.names or chosen:
        print(f"\n==== {chosen[name].relative_to(ROOT)}", flush=True)
        results[name] = run(python, chosen[name], environment)
    print("\n==== all of them")
    for name, (code, last) in results.items():
        print(f"{'passed' if code == 0 else f'FAILED ({code})':12} {name:28} {last[:90]}")
    return int(any(code for code, _ in results.values()))


sys.exit(main())
