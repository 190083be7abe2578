#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# static_flags_test.sh PYTHON: a module that is built with -static-libstdc++ still loads the shared libstdc++.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CMAKE:-cmake}" -S "$here/static_flags" -B "$work" -DEBB="$here/../.." -DCMAKE_CXX_COMPILER="${CXX:-c++}" \
  -DCMAKE_CXX_FLAGS=-static-libstdc++ -DCMAKE_BUILD_TYPE=Release >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"${CMAKE:-cmake}" --build "$work" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$1" -B "$here/symbols_test.py" --module "$work/libmodule.so"
