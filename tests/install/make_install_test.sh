#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# make_install_test.sh SOURCE BUILD: `make install` builds whatever `cmake --install` installs, also where nothing else was built.
set -euo pipefail
source=$1 build=$2
command -v make >/dev/null || { echo "make is missing"; exit 77; }
[ -f "$build/build.ninja" ] || { echo "not a build folder of Ninja"; exit 77; }
commands=$(make -n --no-print-directory -C "$source" install BUILD="$build" PREFIX=/prefix)
grep -q -- '--install .* --prefix /prefix' <<<"$commands"
# shellcheck disable=SC2046
built=$(ninja -C "$build" -t commands $(sed -n 's/.*--target //p' <<<"$commands"))
files=$(sed -n "s|.*\"$build/\([^\"]*\)\".*|\1|p" "$build/cmake_install.cmake" "$build/tools/ebb/cmake_install.cmake" |
  grep -Fx -f <(ninja -C "$build" -t targets all | sed 's/: [^:]*$//') | sort -u)
grep -q '^libebb\.a' <<<"$files" && grep -q '^libebb\.so' <<<"$files" || { echo "no library among what is installed: $files"; exit 1; }
for file in $files; do
  grep -qF " $file" <<<"$built" || { echo "make install does not build $file"; exit 1; }
done
