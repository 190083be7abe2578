#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# wheel_test.sh PYTHON SOURCE PACKAGE PROGRAM: the wheel that pip builds from the repository's root holds the package with its
# stubs and the program, has complete metadata and works in an empty virtual environment. PACKAGE is the package of a build
# tree and PROGRAM its program: nothing is compiled again.
set -euo pipefail
python=$1 source=$2 package=$3 program=$4
"$python" -c 'import pip, scikit_build_core' 2>/dev/null || { echo "there is no pip or no scikit-build-core"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir "$folder" \
  --config-settings=build-dir="$folder/build" --config-settings=cmake.define.EBB_PREBUILT_PACKAGE="$package" \
  --config-settings=cmake.define.EBB_PREBUILT_PROGRAM="$program" "$source"
"$python" - "$folder" <<'PY'
import email, sys, zipfile
from pathlib import Path
wheel, = Path(sys.argv[1]).glob("ebb_grad-*.whl")
archive = zipfile.ZipFile(wheel)
names = archive.namelist()
for part in ("ebb/__init__.py", "ebb/__init__.pyi", "ebb/nn/functional.py", "ebb/nn/__init__.pyi", "ebb/torch/__init__.py", "ebb/py.typed",
             "ebb/_core/__init__.pyi", "ebb/losses.pyi", "ebb/torch/__init__.pyi", "ebb/_program"):
    assert part in names, f"{part} is not in the wheel: {names}"
assert any(n.startswith("ebb/_core.") and n.endswith(".so") for n in names), names
assert any(n.endswith(".data/scripts/ebb") for n in names), names
assert not [n for n in names if not n.startswith("ebb")], names

# One wheel for 3.12 and later, one each for earlier versions.
tag = wheel.name.split("-")[2:4]
version = "cp%d%d" % sys.version_info[:2]
assert tag == (["cp312", "abi3"] if sys.version_info >= (3, 12) else [version, version]), wheel.name

info, = (n for n in names if n.endswith(".dist-info/METADATA"))
metadata = email.message_from_string(archive.read(info).decode())
assert metadata["Name"] == "ebb-grad" and metadata["License-Expression"] == "MIT" and metadata["Requires-Python"] == ">=3.10", metadata.items()
assert metadata["Author"] == "The Ebb authors" and metadata["Description-Content-Type"] == "text/markdown", metadata.items()
assert metadata.get_all("License-File") == ["LICENSE"] and any(n.endswith("/licenses/LICENSE") for n in names), names
assert set(metadata.get_all("Provides-Extra")) == {"numpy", "torch", "cuda12", "cuda13", "all"}, metadata.items()
asked = metadata.get_all("Requires-Dist")
assert all("extra ==" in line for line in asked), asked  # nothing without being asked for
for library in ("cuda-nvrtc", "cublas", "cudnn", "cusolver", "nccl"):
    for extra in ("cuda12", "cuda13"):
        assert any(library in line and extra in line for line in asked), (library, extra, asked)
PY
"$python" -m venv --without-pip "$folder/venv"
"$python" -m pip --python "$folder/venv/bin/python" install --quiet --no-index --no-deps "$folder"/ebb_grad-*.whl
cd "$folder"
# Without NumPy: nothing asks for it until arrays are exchanged.
"$folder/venv/bin/python" -c '
import ebb
assert ebb.grad(lambda x: (x ** 2).sum())(ebb.tensor([1.0, 2.0])).tolist() == [2, 4]
assert ebb.losses.mse_loss(ebb.ones(3), ebb.zeros(3)).item() == 1
assert memoryview(ebb.tensor([1, 2])).tolist() == [1, 2]'
# The command, with its exit code.
said=$("$folder/venv/bin/ebb" --version)
[[ $said == *"$("$folder/venv/bin/python" -c 'import ebb; print(ebb.__version__)')"* ]] || { echo "ebb --version says: $said"; exit 1; }
"$folder/venv/bin/ebb" train --model mlp --train-count 200 --test-count 50 --epochs 1 --out run >/dev/null
status=0
"$folder/venv/bin/ebb" no-such-command 2>/dev/null || status=$?
[ $status -ne 0 ] || { echo "a command that does not exist ends with 0"; exit 1; }
