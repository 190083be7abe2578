# SPDX-License-Identifier: MIT
"""check.py fails for every kind of public name that is gone, names it, and lets new ones pass."""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
with tempfile.TemporaryDirectory() as folder:
    names = Path(folder, "names.txt")

    def run(*lines):
        names.write_text("".join(line + "\n" for line in lines))
        command = [sys.executable, "-B", str(HERE / "check.py"), "--list", str(names), *sys.argv[1:]]
        result = subprocess.run(command, capture_output=True, text=True)
        assert not result.stderr, result.stderr
        return result.returncode, result.stdout

    there = ["c++ ebb::Tensor::shape", "c++ ebb::DType::f32", "c++ ebb::mse_loss", "c++ ebb::nn::Linear", "c++ ebb::HuberOptions::delta",
             "command train --epochs"]
    code, said = run(*there)
    assert code == 0 and f"All {len(there)}" in said, said
    for name in ("c++ ebb::Tensor::shapes", "c++ ebb::DType::f31", "c++ ebb::nn::Lineal", "command train --epoch", "command trains"):
        code, said = run(*there, name)
        assert code == 1 and said.startswith(name + " is gone.") and said.count("is gone") == 1, said
print("check.py notices what is gone")
