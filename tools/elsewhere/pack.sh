#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# pack.sh: makes build/elsewhere, everything that an x86-64 machine with a compiler and without a network needs to build and
# test this tree:
#   packages/root.tar.xz   Debian's libraries and headers, unpacked
#   packages/site.tar.xz   Python packages, all of them pure Python
#   ebb.tar                the tracked and the new files of the tree with packages/ in its place: all that has to be copied
# there.sh says what to do with it there. Runs on any Debian with a network, of any architecture, without root; half a minute.
set -euo pipefail
export XZ_OPT=-3
cd "$(dirname "$0")/../.."
out=$PWD/build/elsewhere
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out/packages" "$work"/{wheels,site}

tools/elsewhere/debian_libraries.sh amd64 "$work/root" openmpi-bin
cd "$work/root"
ln -sf mpirun.openmpi usr/bin/mpirun
tar -cJf "$out/packages/root.tar.xz" .

# Of any version of Python: wheels without machine code. mypy was compiled from 1.14 on; pip itself is there.
cd "$work"
# shellcheck disable=SC2086
python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: --implementation py --abi none --platform any -d wheels \
  nanobind scikit-build-core pathspec packaging pytest pluggy iniconfig pygments einops markdown 'mypy<1.14' mypy_extensions \
  typing_extensions tomli exceptiongroup expecttest 'hypothesis<6.130' sortedcontainers attrs ${EXTRA_WHEELS-}
for wheel in wheels/*.whl; do python3 -m zipfile -e "$wheel" site; done
tar -cJf "$out/packages/site.tar.xz" -C site .

cd "$out/../.."
git ls-files -z --cached --others --exclude-standard | xargs -0 ls -d 2>/dev/null | tar --transform 's,^,ebb/,' -cf "$out/ebb.tar" -T -
tar --transform 's,^,ebb/,' -rf "$out/ebb.tar" build/elsewhere/packages
ls -l "$out"/packages/* "$out/ebb.tar"
