#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# make_wheel.sh PYTHON SOURCE PACKAGE PROGRAM OUTPUT: a manylinux wheel of the package and the program of a build tree, in the
# folder OUTPUT, and the Python tests on it in a bare system: a root folder with this Python and the libraries Python itself needs, but none
# of Ebb's (BARE_TESTS=no: without them).
set -euo pipefail
python=$1 source=$2 package=$3 program=$4
mkdir -p "$5"
output=$(cd "$5" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$python" -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir "$folder/plain" \
  --config-settings=build-dir="$folder/build" --config-settings=cmake.define.EBB_PREBUILT_PACKAGE="$package" \
  --config-settings=cmake.define.EBB_PREBUILT_PROGRAM="$program" "$source"
plain=$(basename "$folder"/plain/ebb_grad-*.whl)
machine=${plain##*linux_}  # x86_64.whl
rm -f "$output/${plain%-*}"-*"$machine"  # of the same Python and processor; others stay
PATH=$(dirname "$python"):$PATH "$python" -m auditwheel repair --strip --wheel-dir "$output" "$folder"/plain/ebb_grad-*.whl \
  >"$folder/auditwheel.txt" 2>&1 || { cat "$folder/auditwheel.txt"; exit 1; }
wheel=$(echo "$output/${plain%-*}"-*"$machine")
"$python" "$source/python/tools/bundled_licenses.py" "$wheel"
case $wheel in  # python/compat/older_systems.cc; the tag names the oldest glibc
  *manylinux_2_3[5-9]*) [ "$("$python" -c 'import platform; print(platform.libc_ver()[1])')" != 2.36 ] || { echo "$wheel needs more than glibc 2.34"; exit 1; } ;;
esac
echo "$(basename "$wheel"), $(($(stat -c %s "$wheel") / 1000000)) MB"

[ "${BARE_TESTS:-yes}" = yes ] || exit 0

# The bare system. Whatever a shared object needs is copied with it, to the place it was found.
root=$folder/root
mkdir -p "$root"/{tmp,dev,proc,repo}
copy_needed() {
  local file needed
  for file in "$@"; do
    for needed in $(ldd "$file" 2>/dev/null | grep -o '/[^ ]*'); do
      if [ ! -e "$root$needed" ]; then install -D "$needed" "$root$needed"; fi
    done
  done
}
base=$("$python" -c 'import sys; print(sys.base_prefix)')
version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
real=$(readlink -f "$python")
stdlib=$("$python" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
install -D "$real" "$root$real"
mkdir -p "$root$stdlib"
tar -C "$stdlib" --exclude=__pycache__ --exclude=site-packages --exclude=dist-packages --exclude=test --exclude='_tkinter*' -cf - . | tar -C "$root$stdlib" -xf -
# shellcheck disable=SC2046
copy_needed "$real" $(find "$root$stdlib" -name '*.so') /bin/sh
install -D /bin/sh "$root/bin/sh"
# What every system has and manylinux wheels may rely on: the C library's and the compiler's.
for library in libstdc++.so.6 libgcc_s.so.1 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libutil.so.1; do
  found=$(/sbin/ldconfig -p | grep -m1 -o "/.*/$library\$")
  install -D "$found" "$root$found"
done
"$python" -m pip install --quiet --target "$root/packages" "$wheel" numpy pytest einops mypy
mkdir -p "$root/repo/python"
cp -r "$source"/{include,docs,examples,tools,bench,README.md,CHANGELOG.md,CITATION.cff,CMakeLists.txt} "$root/repo"
mkdir -p "$root/repo/tests/models"
cp -r "$source"/tests/models/golden "$root/repo/tests/models"
cp -r "$source"/python/{tests,tools,ebb} "$root/repo/python"
rm -f "$root/repo/python/tests/"{test_site,test_cuda}.py  # need a browser, and a GPU or the build folder's emulated one

cat >"$folder/inside.sh" <<INSIDE
mount --bind /dev "$root/dev" && mount -t proc proc "$root/proc" 2>/dev/null || mount --bind /proc "$root/proc"
exec /usr/sbin/chroot "$root" /usr/bin/env -i PATH=/bin HOME=/tmp PYTHONHOME="$base" PYTHONPATH=/packages \
  PYTHONDONTWRITEBYTECODE=1 EBB_BARE_SYSTEM=1 "$real" -m pytest -q -p no:cacheprovider /repo/python/tests
INSIDE
install -D /usr/bin/env "$root/usr/bin/env"
copy_needed /usr/bin/env
if find "$root" -path "$root/packages" -prune -o -name 'lib*' -print | grep -E 'lib(fmt|hwy|openblas|png16|jpeg)\.'; then
  echo "the bare system has Ebb's libraries"
  exit 1
fi
echo "The Python tests ($version) in a system without Ebb's libraries:"
unshare $([ "$(id -u)" = 0 ] || echo -r) -m sh "$folder/inside.sh"
