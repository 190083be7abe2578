#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# make_deb.sh BUILD OUTPUT: a Debian package in the folder OUTPUT, from a build folder that was configured with the prefix /usr
# and the program's name ebb-grad (/usr/bin/ebb belongs to texlive-binaries): both libraries, headers, CMake's and pkg-config's
# files, the program with its manual page and completions.
set -euo pipefail
build=$(cd "$1" && pwd)
mkdir -p "$2"
output=$(cd "$2" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stage=$work/debian/ebb-grad
command=ebb-grad

for component in development static shared program; do
  DESTDIR=$stage cmake --install "$build" --prefix /usr --component $component >/dev/null
done
strip "$stage/usr/bin/$command" "$stage"/usr/lib/*/libebb.so.*.*.*
strip --strip-debug "$stage"/usr/lib/*/libebb.a

program=$build/tools/ebb/$command
share=$stage/usr/share
mkdir -p "$share/doc/ebb-grad"
gzip -9n "$share/man/man1/$command.1"
mv "$share"/zsh/site-functions "$share"/zsh/vendor-completions  # where Debian's zsh looks
gzip -9n <"$here/../../CHANGELOG.md" >"$share/doc/ebb-grad/changelog.gz"
{
  echo 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/'
  echo 'Upstream-Name: ebb'
  echo
  echo 'Files: *'
  sed -n 's/^Copyright (c) /Copyright: /p' "$here/../../LICENSE"
  echo 'License: Expat'
  sed '1,/^Copyright/d; /^$/d; s/^/ /' "$here/../../LICENSE"
} >"$share/doc/ebb-grad/copyright"

# What the libraries and the program load, as packages; what a user of the static library links with.
version=$("$program" --version | awk '{ print $NF }')
cd "$work"
cat >debian/control <<CONTROL
Source: ebb-grad

Package: ebb-grad
Architecture: any
CONTROL
depends=$(dpkg-shlibdeps -O "$stage/usr/bin/$command" "$stage"/usr/lib/*/libebb.so.*.*.* 2>/dev/null | sed 's/^shlibs:Depends=//')
mkdir "$stage/DEBIAN"
cat >"$stage/DEBIAN/control" <<CONTROL
Package: ebb-grad
Version: $version
Section: libdevel
Priority: optional
Architecture: $(dpkg --print-architecture)
Depends: $depends
Recommends: libfmt-dev, libhwy-dev, libopenblas-dev, zlib1g-dev, libpng-dev, libjpeg-dev
Installed-Size: $(du -ks --exclude=DEBIAN "$stage" | cut -f1)
Maintainer: The Ebb authors <maintainers@ebb.invalid>
Description: losses, gradients and training
 A C++20 library of lazy tensors whose losses and gradients run as single
 sweeps over memory, on CPUs and NVIDIA GPUs, and a program that trains
 networks, computes losses of files and checks gradients. The program is
 called ebb-grad, because /usr/bin/ebb belongs to TeX Live.
CONTROL
printf 'activate-noawait ldconfig\n' >"$stage/DEBIAN/triggers"
(cd "$stage" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$stage/DEBIAN/md5sums"
rm -f "$output"/ebb-grad_*.deb
dpkg-deb --root-owner-group --build "$stage" "$output" >/dev/null
ls "$output"/ebb-grad_*.deb
