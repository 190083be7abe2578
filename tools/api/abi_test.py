# SPDX-License-Identifier: MIT
"""abi.py fails when a symbol, the size of a class or the order of virtual functions is another, and lets additions pass."""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
with tempfile.TemporaryDirectory() as folder:
    names = Path(folder, "abi.txt")

    def run(*options):
        command = [sys.executable, "-B", str(HERE / "abi.py"), *sys.argv[1:], "--list", str(names), *options]
        result = subprocess.run(command, capture_output=True, text=True)
        assert not result.stderr, result.stderr
        return result.returncode, result.stdout

    assert run() == (0, "No ABI has been promised yet\n")
    assert run("--update")[0] == 0
    lines = names.read_text().splitlines()
    for one in ("class ebb::Tensor size=8 align=8", "table ebb::optim::Lion ~Lion ~Lion elementwise update"):
        assert one in lines, one
    [loss] = [line for line in lines if line.startswith("symbol _ZN3ebb10huber_lossE")]
    others = [loss.replace("huber", "hubes"), "class ebb::Tensor size=16 align=8", "table ebb::optim::Lion ~Lion ~Lion update"]
    names.write_text("\n".join([*lines, *others]) + "\n")
    code, said = run()
    assert code == 1 and said.count("changed") == len(others), said
    assert all(f"{other} is gone or has changed" in said for other in others), said
    names.write_text("\n".join(line for line in lines if line != loss) + "\n")  # a new function
    code, said = run()
    assert code == 0 and "1 more" in said, said
    names.write_text("\n".join(["version 0.0 x86_64", *lines[1:], "symbol gone"]) + "\n")  # another minor version
    assert run()[0] == 0
print("abi.py notices what has changed")
