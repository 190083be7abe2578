#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# test_deb.sh DEB: what the package holds, unpacked elsewhere, runs, and a program builds against it by CMake and pkg-config.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$(cd "$(dirname "$0")" && pwd)
dpkg-deb -x "$1" "$work/unpacked"
dpkg-deb -f "$1" Depends | grep -q libfmt || { echo "the package does not depend on what it loads: $(dpkg-deb -f "$1" Depends)"; exit 1; }
if dpkg-deb -c "$1" | grep -E ' \./usr/bin/ebb$'; then echo "/usr/bin/ebb belongs to TeX Live"; exit 1; fi
root=$work/unpacked/usr
lib=$(dirname "$(find "$root" -name libebb.a)")
"$root/bin/ebb-grad" --version
"$root/bin/ebb-grad" train --model mlp --train-count 200 --test-count 50 --epochs 1 --out "$work/run" >/dev/null
zcat "$root"/share/man/man1/ebb-grad.1.gz | man --warnings -l - >/dev/null 2>"$work/warnings" || true
[ ! -s "$work/warnings" ] || { echo "the manual page:"; cat "$work/warnings"; exit 1; }
zcat "$root"/share/man/man1/ebb-grad.1.gz | MANWIDTH=150 man -l - | grep -q -- --validation-fraction
bash -c ". $root/share/bash-completion/completions/ebb-grad && complete -p ebb-grad" >/dev/null
for page in zsh/vendor-completions/_ebb-grad fish/vendor_completions.d/ebb-grad.fish doc/ebb-grad/copyright; do
  [ -s "$root/share/$page" ] || { echo "$page is missing"; exit 1; }
done
others=$(find "$root" \( -name ebb -o -name ebb.1 -o -name _ebb -o -name ebb.fish \) -not -type d)
[ -z "$others" ] || { echo "files with TeX Live's name: $others"; exit 1; }
for shared in OFF ON; do
  cmake -S "$here/../../tests/install" -B "$work/$shared" -DCMAKE_PREFIX_PATH="$root" -DBUILD_SHARED_LIBS=$shared >/dev/null
  cmake --build "$work/$shared" >/dev/null
  "$work/$shared/consumer"
done
PKG_CONFIG_PATH=$lib/pkgconfig
export PKG_CONFIG_PATH
# shellcheck disable=SC2046
c++ -std=c++20 "$here/../../tests/install/consumer.cc" -o "$work/consumer" $(pkg-config --cflags --libs ebb)
LD_LIBRARY_PATH=$lib "$work/consumer"
