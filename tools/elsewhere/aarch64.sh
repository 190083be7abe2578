#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# aarch64.sh STEP [WORD...]: the test programs on an aarch64 processor that an emulator plays, cross-compiled on an x86-64 machine.
#
#   aarch64.sh pack              adds the cross-compiler, the emulator and arm64's libraries to build/elsewhere/packages, 35 MB,
#                                for a machine without a network (needs one; no root)
#   aarch64.sh build [TARGET...] unpacks them where there is no cross-compiler (as root), builds build/aarch64/tests
#   aarch64.sh run [PROGRAM...]  runs test programs, all that need no compiler on the emulated processor unless named
#
#   CPU=neoverse-n1              the processor that the emulator plays (max: SVE, bf16)
#   JOBS, LIMIT, OUT             as for there.sh, whose table (there.sh table) has the rows of this script, too
# On a Debian with a network: apt-get install g++-aarch64-linux-gnu qemu-user-static, and no pack.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
packages=$PWD/build/elsewhere/packages root=$PWD/build/aarch64/root build=$PWD/build/aarch64/tests results=$PWD/build/there-results
target=aarch64-linux-gnu jobs=${JOBS:-$(nproc)}
limited=(timeout --kill-after 5 "${LIMIT:-0}")
step=${1:?a step: pack, build or run}
shift
mkdir -p "$results" "$root" "$build" "$packages"

rows() {
  python3 -B tools/elsewhere/results.py "$results" "$@"
  local status=$?
  [ -z "${OUT-}" ] || { mkdir -p "$OUT" && cp "$results"/*.{tsv,md,txt} "$OUT" 2>/dev/null; }
  return $status
}

libraries() { [ -d "$root/usr/lib/$target" ] || tools/elsewhere/debian_libraries.sh arm64 "$root"; }

case $step in
  pack)
    libraries || exit 1
    tar -C "$root" -cJf "$packages/arm64.tar.xz" .
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    mkdir -p "$work"/{debs,cross}
    compiler=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
      g++-12-$target | grep -E '^[a-z].*(arm64-cross|aarch64-linux-gnu|cross-base)' | sort -u)
    # shellcheck disable=SC2086
    (cd "$work/debs" && apt-get download -qq $compiler qemu-user-static libisl23 libmpc3 libbinutils libjansson4) || exit 1
    for deb in "$work"/debs/*.deb; do dpkg-deb -x "$deb" "$work/cross"; done
    cd "$work/cross" || exit
    # What C++ programs are not made with, and the other processors.
    rm -rf usr/share etc var lib/systemd
    find . \( -name '*san*' -o -name 'libgomp*' -o -name 'libstdc++.a' -o -name 'lto1' -o -name 'cc1' -o -name '*lto-dump*' -o -name '*dwp' \
      -o -name '*gcov*' -o -name '*gprof' -o -name '*gold' \) ! -type d -delete
    find usr/bin -name 'qemu-*' ! -name qemu-aarch64-static -delete
    tar -cJf "$packages/cross.tar.xz" .
    ls -l "$packages"
    ;;
  build)
    start=$(date +%s)
    gxx=$(command -v $target-g++ || command -v $target-g++-12)
    if [ -z "$gxx" ] || ! command -v qemu-aarch64-static >/dev/null; then
      tar -xJf "$packages/cross.tar.xz" --skip-old-files --keep-directory-symlink --no-same-owner -C / && ldconfig || exit 1
      gxx=$(command -v $target-g++-12)
    fi
    if [ ! -d "$root/usr" ]; then
      if [ -f "$packages/arm64.tar.xz" ]; then tar -xJf "$packages/arm64.tar.xz" -C "$root"; else libraries; fi || exit 1
    fi
    export PKG_CONFIG_LIBDIR=$root/usr/lib/$target/pkgconfig:$root/usr/share/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
    export CPATH=$root/usr/include/$target  # headers that differ between processors
    linker=-Wl,-rpath-link,$root/usr/lib/$target
    [ -f "$build/build.ninja" ] ||
      cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DEBB_BUILD_EXAMPLES=OFF -DEBB_BUILD_BENCH=OFF -DEBB_BUILD_PYTHON=OFF \
        -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_LIBRARY_ARCHITECTURE=$target \
        -DCMAKE_C_COMPILER="${gxx/g++/gcc}" -DCMAKE_CXX_COMPILER="$gxx" -DCMAKE_C_COMPILER_WORKS=1 -DCMAKE_FIND_ROOT_PATH="$root" \
        -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=BOTH \
        -DCMAKE_SHARED_LINKER_FLAGS="$linker" -DCMAKE_MODULE_LINKER_FLAGS="$linker" -DCMAKE_EXE_LINKER_FLAGS="$linker" \
        >"$results/configure_aarch64.txt" 2>&1 || { tail -30 "$results/configure_aarch64.txt"; exit 1; }
    "${limited[@]}" ninja -C "$build" -j "$jobs" -k 0 "$@" >"$results/build_aarch64.txt" 2>&1
    status=$?
    [ $status = 0 ] || grep -E 'FAILED|error:' "$results/build_aarch64.txt" | head -20
    rows build $status $(($(date +%s) - start)) "$build" aarch64 "$@"
    ;;
  run)
    # Not cuda, which compiles kernels with the compiler of the machine it is on, nor those that start programs they were built with.
    names=${*:-$(cd "$build/tests" && ls test_* | grep -vxE 'test_(cuda|docs|install|program|training|comm|faults|symbols)' | sed 's/^test_//')}
    # The emulator reserves address space for each process; large tests need it.
    export QEMU_CPU=${CPU:-neoverse-n1} QEMU_LD_PREFIX=/usr/$target
    export QEMU_SET_ENV="LD_LIBRARY_PATH=$root/usr/lib/$target:$root/usr/lib/$target/openblas-pthread:/usr/$target/lib"
    logs=$(mktemp -d "$results/aarch64-XXXX")
    TESTS=$names SANITIZE='' JOBS=$jobs RUNNER=qemu-aarch64-static FILTER=${FILTER:-*} \
      "${limited[@]}" tests/run_on_gpu.sh "$build/tests" "$logs" >"$logs/summary"
    rows "aarch64" "$logs"
    ;;
  *) echo "aarch64.sh: $step is not a step: pack, build or run"; exit 1 ;;
esac
