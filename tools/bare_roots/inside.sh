#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What bare_roots.sh does within a system: prints the cells of a row, and ends with an error where something fails or takes
# LIMIT seconds or more.
set -euo pipefail
cd /tmp
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INDEX=1 PIP_ROOT_USER_ACTION=ignore
cell() { printf '| %s ' "$1"; }
fail() {
  echo "| $1 |"
  exit 1
}
now() { date +%s.%N; }
# `end` sets `took` to the wall time and the CPU time since `begin`; the latter is what a machine without other work would need
# at most. `times` has to be called in this shell, whose children are counted, not in $(...).
begin() {
  start=$(now)
  times >/tmp/times.begin
}
end() {
  local stop
  stop=$(now)
  times >/tmp/times.end
  took=$(python3 - "$start" "$stop" <<'PYTHON'
import re, sys
def cpu(path):
    return sum(60 * int(m) + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", open(path).read()))
print("%.1f s (CPU %.1f s)" % (float(sys.argv[2]) - float(sys.argv[1]), cpu("/tmp/times.end") - cpu("/tmp/times.begin")))
PYTHON
)
  python3 -c 'import sys; sys.exit(float(sys.argv[2]) - float(sys.argv[1]) >= float(sys.argv[3]))' "$start" "$stop" "$LIMIT" || fail "took $took"
}

cell "$(python3 -c 'import platform; print(platform.libc_ver()[1])')"
cell "$(python3 -c 'import platform; print(platform.python_version())')"

begin
python3 -m venv /tmp/venv >&2 || { /tmp/venv/bin/python3 -m ensurepip --default-pip >&2; fail "no virtual environment"; }
if ! /tmp/venv/bin/python -m pip -q install --find-links /wheels ebb-grad >/tmp/pip.log 2>&1; then
  # Without a wheel for this system pip refuses, and says so.
  [[ $(</tmp/pip.log) == *'No matching distribution'* ]] || fail "$(tail -1 /tmp/pip.log)"
  echo '| none fits: pip refuses | | | | | | |'
  exit 0
fi
cell "$(/tmp/venv/bin/python -c 'import importlib.metadata as m; w = m.distribution("ebb-grad").read_text("WHEEL"); print(*dict.fromkeys(l.split()[1].rsplit("-", 1)[0] for l in w.splitlines() if l.startswith("Tag")))')"
/tmp/venv/bin/ebb train --model mlp --train-count 2000 --test-count 500 --epochs 2 --out /tmp/run >/tmp/log
end
cell "$took"

/tmp/venv/bin/python -c '
import ebb, sys
assert ebb.grad(lambda x: (x ** 2).sum())(ebb.tensor([1.0, 2.0])).tolist() == [2, 4] and "numpy" not in sys.modules'
cell yes

for numpy in numpy1 numpy2; do
  if [ -n "$(ls /extra/$numpy 2>/dev/null)" ]; then
    /tmp/venv/bin/python -m pip -q install --no-deps --target /tmp/$numpy /extra/$numpy/numpy-*.whl
    cell "$(PYTHONPATH=/tmp/$numpy /tmp/venv/bin/python -c '
import numpy, ebb
a = numpy.arange(6.0).reshape(2, 3)
assert (ebb.asarray(a) * 2).numpy().tolist() == (a * 2).tolist() and numpy.sin(ebb.asarray(a)).shape == (2, 3)
assert ebb.from_numpy(a).sum().item() == 15
print(numpy.__version__)')"
  else
    cell 'no wheel'
  fi
done

# A first step of a patched model. PyTorch and transformers are there before, as they are for those who have a model to patch.
python3 -m venv --system-site-packages /tmp/torch-venv
export PYTHONPATH=/peers
if ! /tmp/torch-venv/bin/python -c 'import torch' 2>/tmp/torch.log; then
  echo "| none ($(tail -1 /tmp/torch.log)) | |"
  exit 0
fi
cell "$(/tmp/torch-venv/bin/python -c 'import torch; print(torch.__version__.split("+")[0])')"
/tmp/torch-venv/bin/python -c 'import transformers' 2>/dev/null ||
  /tmp/torch-venv/bin/python -m pip -q install --find-links /extra/transformers transformers || fail 'transformers cannot be installed'
begin
/tmp/torch-venv/bin/python -m pip -q install --find-links /wheels ebb-grad
/tmp/torch-venv/bin/python /first_patched_step.py
end
echo "| $took |"
