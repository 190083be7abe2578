#!/usr/bin/env bash
# wheel_test.sh PYTHON SOURCE PACKAGE: the wheel that pip builds from the repository's root holds the package with its
# stubs and works in an empty virtual environment. PACKAGE is the package of a build tree: nothing is compiled again.
set -euo pipefail
python=$1 source=$2 package=$3
"$python" -c 'import pip, scikit_build_core' 2>/dev/null || { echo "there is no pip or no scikit-build-core"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir "$folder" \
  --config-settings=build-dir="$folder/build" --config-settings=cmake.define.EBB_PREBUILT_PACKAGE="$package" "$source"
"$python" - "$folder" <<'PY'
import sys, zipfile
from pathlib import Path
wheel, = Path(sys.argv[1]).glob("ebb-*.whl")
names = zipfile.ZipFile(wheel).namelist()
for part in ("ebb/__init__.py", "ebb/__init__.pyi", "ebb/nn/functional.py", "ebb/nn/__init__.pyi", "ebb/torch.py", "ebb/py.typed", "ebb/_core/__init__.pyi", "ebb/losses.pyi", "ebb/torch.pyi"):
    assert part in names, f"{part} is not in the wheel: {names}"
assert any(n.startswith("ebb/_core.") and n.endswith(".so") for n in names), names
assert not [n for n in names if not n.startswith("ebb")], names
PY
"$python" -m venv --without-pip "$folder/venv"
site=$("$folder/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
"$python" -m zipfile -e "$folder"/ebb-*.whl "$site"
cd "$folder"
# Without NumPy: nothing asks for it until arrays are exchanged.
"$folder/venv/bin/python" -c '
import ebb
assert ebb.grad(lambda x: (x ** 2).sum())(ebb.tensor([1.0, 2.0])).tolist() == [2, 4]
assert ebb.losses.mse_loss(ebb.ones(3), ebb.zeros(3)).item() == 1
assert memoryview(ebb.tensor([1, 2])).tolist() == [1, 2]'
