# SPDX-License-Identifier: MIT
"""beside_torch.py: Ebb and PyTorch in one process, imported in either order. Both have C++ inside, which has one std::locale per
process: PyTorch matches regular expressions, and both format and read numbers with streams, before and after errors."""

import subprocess
import sys
import time

BOTH = """
import tempfile, pathlib, numpy
def pytorch():
    from torch.testing import FileCheck
    FileCheck().check_regex("b[0-9]+ = [a-z]+").run("a = 1\\nb17 = word\\n")
    assert "C++" in torch.__config__.show()
    assert "p=2.5" in str(torch._C.parse_schema("f(Tensor x, float p=2.5) -> Tensor"))
    try:
        torch.ones(2, 3) @ torch.ones(2, 3)
    except RuntimeError as error:
        assert "2x3" in str(error)
def ours():
    with tempfile.TemporaryDirectory() as folder:
        file = str(pathlib.Path(folder, "x.npy"))
        ebb.io.save_npy(file, ebb.tensor([1.5, 2.5]))
        assert ebb.io.load_npy(file).tolist() == [1.5, 2.5] == numpy.load(file).tolist()
    assert "1.5" in repr(ebb.tensor([1.5, 2.25]))
    try:
        ebb.ones((2, 3)) @ ebb.ones((2, 3))
    except Exception as error:
        assert "3" in str(error)
    else:
        raise AssertionError("no error")
    loss = ebb.losses.huber_loss(ebb.tensor([1.0, 3.0]), ebb.tensor([0.0, 0.0]))
    assert abs(loss.item() - 1.5) < 1e-6
for _ in range(3):
    pytorch()
    ours()
x = torch.tensor([1.0, 2.0], requires_grad=True)
ebb.torch.mse_loss(x, torch.zeros(2)).backward()
assert x.grad.tolist() == [1.0, 2.0]
"""


def main():
    start, failed = time.time(), 0
    orders = ["import ebb, torch, ebb.torch", "import torch, ebb, ebb.torch"]
    for order in orders:
        run = subprocess.run([sys.executable, "-X", "faulthandler", "-c", order + BOTH], capture_output=True, text=True)
        failed += run.returncode != 0
        print(f"{order}: " + ("passed" if run.returncode == 0 else f"FAILED with {run.returncode}\n{run.stdout}{run.stderr}"))
    print(f"{failed} failed, {len(orders) - failed} passed in {time.time() - start:.1f}s")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
