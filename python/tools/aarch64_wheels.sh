#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# aarch64_wheels.sh OUTPUT PYTHON...: wheels for aarch64, in the folder OUTPUT, cross-compiled on an x86-64 Debian that has
# g++-aarch64-linux-gnu and a network. The interpreters are this machine's, for which all_wheels.sh has made wheels of this tree:
# they lend their headers, in which nothing that a module sees differs between the two processors, and the packages that were made
# with them lend the type stubs. The library is compiled once for all. On an aarch64 machine all_wheels.sh does everything, with
# tests.
set -euo pipefail
output=$1
shift
cd "$(dirname "$0")/../.."
root=$PWD/build/aarch64/root build=build/aarch64/build target=aarch64-linux-gnu
command -v $target-g++ >/dev/null || { echo "g++-aarch64-linux-gnu is needed"; exit 1; }
[ -d "$root" ] || tools/elsewhere/debian_libraries.sh arm64 "$root"
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
ln -s "$(command -v $target-strip)" "$tools/strip"  # what auditwheel calls
export PKG_CONFIG_LIBDIR=$root/usr/lib/$target/pkgconfig:$root/usr/share/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
export CPATH=$root/usr/include/$target  # headers that differ between processors

for python in "$@"; do
  read -r tag soabi include < <("$python" -c 'import sys, sysconfig as s
digits, t = "%d%d" % sys.version_info[:2], "t" if s.get_config_var("Py_GIL_DISABLED") else ""
print(f"{digits[0]}.{digits[1:]}{t} cpython-{digits}{t}", s.get_path("include"))')
  venv=build/venv-$tag native=build/package-$tag
  [ -f "$native/ebb/losses.pyi" ] || { echo "$native is missing: all_wheels.sh comes first"; exit 1; }
  # Everything found for another Python is looked for again; objects stay.
  rm -f $build/CMakeCache.txt
  linker=-Wl,-rpath-link,$root/usr/lib/$target
  cmake --preset release -B $build -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_LIBRARY_ARCHITECTURE=$target \
    -DCMAKE_C_COMPILER=$target-gcc -DCMAKE_CXX_COMPILER=$target-g++ -DCMAKE_FIND_ROOT_PATH="$root" \
    -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=BOTH \
    -DCMAKE_SHARED_LINKER_FLAGS="$linker" -DCMAKE_MODULE_LINKER_FLAGS="$linker" -DCMAKE_EXE_LINKER_FLAGS="$linker" \
    -DEBB_BUILD_PYTHON=ON -DEBB_BUILD_TESTS=OFF -DEBB_BUILD_EXAMPLES=OFF -DPython_EXECUTABLE="$PWD/$venv/bin/python" \
    -DPython_INCLUDE_DIR="$include" -DSKBUILD_SOABI="$soabi-$target" >/dev/null
  cmake --build $build --target ebb_python ebb_program >$build/build.log || { tail -30 $build/build.log; exit 1; }
  (cd "$native" && find ebb -name '*.pyi' -exec cp --parents {} "$OLDPWD/$build/python/package" \;)
  PATH=$tools:$PATH BARE_TESTS=no _PYTHON_HOST_PLATFORM=linux-aarch64 AUDITWHEEL_LD_LIBRARY_PATH=$root/usr/lib/$target \
    python/tools/make_wheel.sh "$PWD/$venv/bin/python" "$PWD" "$PWD/$build/python/package" "$PWD/$build/tools/ebb/ebb" "$output"
done
