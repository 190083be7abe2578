#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run.py CHECKOUT [PYTEST ARGUMENT...]: the array API standard's own test suite on ebb.array_api.

CHECKOUT is a clone of github.com/data-apis/array-api-tests with its submodule. It stays as it is: the suite is copied to a
temporary folder, where no_complex.patch lets it be imported for a library without complex numbers. Tests that are expected to
fail are listed, with reasons, in xfails.txt; any other failure is one. Needs pytest, hypothesis, ndindex, pytest-json-report
and the package ebb; EXAMPLES=100 is the number of inputs per test.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main(checkout, *arguments):
    checkout = Path(checkout)
    if not (checkout / "array-api" / "src").is_dir():
        sys.exit(f"{checkout} is not a clone of array-api-tests with its submodule: git clone --recurse-submodules")
    with tempfile.TemporaryDirectory() as folder:
        suite = shutil.copytree(checkout, Path(folder) / "suite", ignore=shutil.ignore_patterns(".git"))
        patched = (suite / "array_api_tests" / "dtype_helpers.py").read_text()
        if "default=(None, 0)" not in patched:
            subprocess.run(["patch", "-p1", "-s", "-i", str(HERE / "no_complex.patch")], cwd=suite, check=True)
        environment = dict(
            os.environ, ARRAY_API_TESTS_MODULE="ebb.array_api", ARRAY_API_TESTS_SKIP_DTYPES="complex64,complex128"
        )
        command = [sys.executable, "-m", "pytest", "array_api_tests", "-q", "-p", "no:cacheprovider", "-W", "ignore"]
        command += ["--max-examples", os.environ.get("EXAMPLES", "100"), "--disable-deadline", "--disable-extension", "fft"]
        command += ["--xfails-file", str(HERE / "xfails.txt"), *arguments]
        return subprocess.run(command, cwd=suite, env=environment).returncode


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
