#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs the static and the shared library from the build folder $1, each into a prefix of its own, and builds and runs
# a program against each, once by CMake and once by pkg-config. Then the program ebb.
set -euo pipefail
build=$1
here=$(cd "$(dirname "$0")" && pwd)
cmake=${CMAKE:-cmake}
cxx=${CXX:-c++}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

expect_link() {  # program, static|shared: does it load libebb.so exactly when it should?
  local loads=static
  if readelf -d "$1" | grep -q 'NEEDED.*libebb\.so'; then loads=shared; fi
  [ "$loads" = "$2" ] || { echo "$1 uses the $loads library, not the $2 one"; exit 1; }
}

for kind in static shared; do
  prefix=$work/$kind/prefix
  "$cmake" --install "$build" --prefix "$prefix" --component development >/dev/null
  "$cmake" --install "$build" --prefix "$prefix" --component "$kind" >/dev/null

  echo "$kind, by find_package:"
  "$cmake" -S "$here" -B "$work/$kind/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$cxx" >/dev/null
  "$cmake" --build "$work/$kind/build" >/dev/null
  "$work/$kind/build/consumer"
  expect_link "$work/$kind/build/consumer" $kind

  echo "$kind, by pkg-config:"
  export PKG_CONFIG_PATH
  PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name ebb.pc)")
  static=$([ $kind = static ] && echo --static || true)
  # shellcheck disable=SC2046
  "$cxx" -std=c++20 "$here/consumer.cc" -o "$work/$kind/consumer" $(pkg-config $static --cflags --libs ebb)
  LD_LIBRARY_PATH=$(pkg-config --variable=libdir ebb) "$work/$kind/consumer"
  expect_link "$work/$kind/consumer" $kind
done

echo "an older standard, and -static:"
first=$("$cxx" -std=c++17 -fsyntax-only -I "$work/static/prefix/include" "$here/consumer.cc" 2>&1 | grep -m1 'error' || true)
case "$first" in *"Ebb needs C++20"*) ;; *) echo "C++17 is not refused with words but: $first"; exit 1 ;; esac
words=$("$cmake" -S "$here" -B "$work/no_shared" -DCMAKE_PREFIX_PATH="$work/static/prefix" -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_EXE_LINKER_FLAGS=-static 2>&1 || true)
echo "$words" | tr -s ' \n' ' ' | grep -q 'cannot be linked with -static' || { echo "-static is not refused: $words"; exit 1; }

echo "the program:"
"$cmake" --install "$build" --prefix "$work/program" --component program >/dev/null
"$work/program/bin/ebb" --version
for page in man/man1/ebb.1 bash-completion/completions/ebb zsh/site-functions/_ebb fish/vendor_completions.d/ebb.fish; do
  [ -s "$work/program/share/$page" ] || { echo "share/$page is missing"; exit 1; }
done

library=$(find "$work/shared/prefix" -name 'libebb.so.*.*.*')
strip -o "$work/stripped.so" "$library"
size=$(stat -c %s "$work/stripped.so")
echo "the stripped shared library has $size bytes"
# Debian 12's g++ 12 makes 13.6 MB of it; Ubuntu 24.04's g++ 13, which protects stacks and branches by default, 15.3. The
# reductions (src/cpu/tile/reduce*.cc) are 1.3 of it: -O2 makes them smaller and some twice as slow.
[ "$size" -lt 15800000 ] || { echo "that is more than 15.8 MB"; exit 1; }
