#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# there.sh STEP [WORD...]: builds and tests this tree on a machine without a network, with what pack.sh has packed. As root,
# because the libraries are unpacked into the system's folders: for machines that are thrown away.
#
#   there.sh build [TARGET...]     unpacks, configures build/there and builds, everything where no target is named
#   there.sh ctest [OPTION...]     the whole suite on the CPU; -R NAME, -E NAME as for ctest
#   there.sh gpu [PROGRAM...]      test programs on the first GPU (tests/run_on_gpu.sh): those of `make test-cuda`, or some
#   there.sh sanitize [TOOL...]    compute-sanitizer over the tests of kernels: memcheck racecheck initcheck synccheck
#   there.sh torch                 the package beside PyTorch, where the machine's python3 has it
#   there.sh table                 everything above, so far, as one table; fails where something failed
#
# Each step can be called by itself, prints its own table (passed, failed, skipped, seconds), goes on after a failure and adds
# its rows to build/there-results.
#   OUT=FOLDER     copies the tables and the output of what failed to that folder
#   LIMIT=570      ends a step after so many seconds; what had not finished by then counts as failed
#   JOBS=16        processes at a time (all cores)
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
packages=$PWD/build/elsewhere/packages build=$PWD/build/there results=$PWD/build/there-results
python=$build/venv/bin/python jobs=${JOBS:-$(nproc)}
limited=(timeout --kill-after 5 "${LIMIT:-0}")
step=${1:?a step: build, ctest, gpu, sanitize, torch or table}
shift
mkdir -p "$results" "$build"
export OMPI_MCA_plm=isolated  # mpirun without ssh

rows() {  # words of results.py; copies what it wrote
  python3 -B tools/elsewhere/results.py "$results" "$@"
  local status=$?
  [ -z "${OUT-}" ] || { mkdir -p "$OUT" && cp "$results"/*.{tsv,md,txt} "$OUT" 2>/dev/null; }
  return $status
}

unpack() {
  for tool in g++ cmake ninja pkg-config python3 xz; do
    command -v $tool >/dev/null || { echo "there.sh: $tool is missing; the machine must have a compiler, CMake, Ninja, pkg-config and Python"; exit 1; }
  done
  if ! { pkg-config --exists fmt libhwy openblas zlib libpng libjpeg mpfr gtest && command -v mpirun >/dev/null; }; then
    tar -xJf "$packages/root.tar.xz" --skip-old-files --keep-directory-symlink --no-same-owner -C / && ldconfig || exit 1
  fi
  [ -f "$build/venv/unpacked" ] && return
  # The machine's own Python packages, PyTorch among them, come after the packed ones.
  python3 -m venv --without-pip "$build/venv" || exit 1
  local site
  site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  tar -xJf "$packages/site.tar.xz" -C "$site" || exit 1
  python3 -c 'import sys; print(*(p for p in sys.path if p.endswith("-packages")), sep="\n")' >"$site/machine.pth"
  touch "$build/venv/unpacked"
}

case $step in
  build)
    start=$(date +%s)
    unpack
    [ -f "$build/build.ninja" ] ||
      cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DEBB_BUILD_PYTHON=ON -DEBB_BUILD_BENCH=OFF \
        "-DPython_EXECUTABLE=$python" >"$results/configure.txt" 2>&1 || { cat "$results/configure.txt"; exit 1; }
    "${limited[@]}" ninja -C "$build" -j "$jobs" -k 0 "$@" >"$results/build.txt" 2>&1
    status=$?
    [ $status = 0 ] || grep -E 'FAILED|error:' "$results/build.txt" | head -20
    rows build $status $(($(date +%s) - start)) "$build" "$@"
    ;;
  ctest)
    log=$results/ctest-output.log
    ctest --test-dir "$build" -N 2>/dev/null | sed -n 's/^ *Test *#[0-9]*: //p' >"$results/tests.txt"
    "${limited[@]}" ctest --test-dir "$build" -V -j "$jobs" "$@" >"$log" 2>&1
    rows ctest "$log"
    ;;
  gpu)
    names=${*:-$(sed -n 's/^CUDA_TESTS := //p' Makefile)}
    logs=$(mktemp -d "$results/gpu-XXXX")
    TESTS=$names SANITIZE='' JOBS=$jobs "${limited[@]}" tests/run_on_gpu.sh "$build/tests" "$logs" >"$logs/summary"
    rows gpu "$logs"
    ;;
  sanitize)
    logs=$(mktemp -d "$results/sanitize-XXXX")
    TESTS='' SANITIZE=${*:-memcheck racecheck initcheck synccheck} JOBS=$jobs "${limited[@]}" tests/run_on_gpu.sh "$build/tests" "$logs" >"$logs/summary"
    rows sanitize "$logs"
    ;;
  torch)
    log=$results/torch-output.log
    PYTHONPATH=$build/python/package "${limited[@]}" "$python" -B python/parity/beside_torch.py >"$log" 2>&1
    rows script beside_torch $? "$log"
    ;;
  table) rows table ;;
  *) echo "there.sh: $step is not a step: build, ctest, gpu, sanitize, torch or table"; exit 1 ;;
esac
