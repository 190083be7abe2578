#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# make_deb.sh BUILD OUTPUT: a Debian package in the folder OUTPUT, from a build folder that was configured with the prefix /usr:
# both libraries, headers, CMake's and pkg-config's files, the program with its manual page and completions. The program is
# called ebb-grad there, as /usr/bin/ebb belongs to TeX Live (texlive-binaries).
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
mv "$stage/usr/bin/ebb" "$stage/usr/bin/$command"
strip "$stage/usr/bin/$command" "$stage"/usr/lib/*/libebb.so.*.*.*
strip --strip-debug "$stage"/usr/lib/*/libebb.a

program=$build/tools/ebb/ebb
share=$stage/usr/share
mkdir -p "$share"/{man/man1,doc/ebb-grad,bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
python3 -B "$here/man_page.py" "$program" $command | gzip -9n >"$share/man/man1/$command.1.gz"
"$program" completion bash | sed "s/-F _ebb ebb\$/-F _ebb $command/" >"$share/bash-completion/completions/$command"
"$program" completion zsh | sed "s/^#compdef ebb\$/#compdef $command/" >"$share/zsh/vendor-completions/_$command"
"$program" completion fish | sed "s/^complete -c ebb /complete -c $command /" >"$share/fish/vendor_completions.d/$command.fish"
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
