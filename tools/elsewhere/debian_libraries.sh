#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# debian_libraries.sh ARCHITECTURE FOLDER [PACKAGE...]: Debian's libraries and headers for a machine of this architecture (amd64,
# arm64), unpacked in FOLDER: what the Makefile lists for building and testing, and PACKAGE..., without what a machine with a
# compiler has. Runs on any Debian with a network, of any architecture, without root.
set -euo pipefail
architecture=$1 root=$2
shift 2
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$root" "$work"/{apt/lists/partial,apt/cache/archives/partial,debs}

# apt for the other machine's architecture, with a state of its own: the packages of this machine are left alone.
: >"$work/apt/status"
options=(-qq -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o Dir::State="$work/apt"
  -o Dir::State::status="$work/apt/status" -o Dir::Cache="$work/apt/cache" -o APT::Sandbox::User="$(id -un)")
apt-get "${options[@]}" update
closure() {  # what the packages $@ need, themselves included
  apt-cache "${options[@]}" depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances "$@" |
    grep '^[a-z]' | sort -u
}
tools='^(g[+][+]|cmake|ninja-build|ccache|pkg-config)$'  # are there
# shellcheck disable=SC2016
libraries=$(printf 'include Makefile\nprint:;@echo $(PACKAGES)\n' | make -s -f - print | tr ' ' '\n' | grep -vE "$tools")
# A machine with a compiler has the C and C++ libraries and what every system is made of; of OpenBLAS one kind is enough.
closure libc6-dev libstdc++6 openssh-client libhwloc-plugins | grep -vE '^(zlib1g|libudev1|libhwloc15)$' >"$work/there"
# shellcheck disable=SC2086
closure $libraries "$@" | grep -vxFf "$work/there" | grep -vE 'openblas.*-(openmp|serial)' >"$work/wanted"
(cd "$work/debs" && xargs apt-get "${options[@]}" download <"$work/wanted")

for deb in "$work"/debs/*.deb; do dpkg-deb -x "$deb" "$root"; done
cd "$root"
[ ! -d lib ] || { cp -a lib/. usr/lib/ && rm -rf lib; }
rm -rf etc/init.d usr/share/doc usr/share/man usr/share/lintian var
find usr -name 'libopenblas*.a' -delete
lib=$(dirname usr/lib/*/openblas-pthread)
for file in libopenblas.so libopenblas.so.0 pkgconfig/openblas.pc; do  # what update-alternatives does when packages are installed
  [ -e "$lib/$file" ] || ln -sr "$lib/openblas-pthread/$file" "$lib/$file"
done
find "$lib" -maxdepth 1 -lname '/lib/*' | while read -r link; do ln -sf "$(basename "$(readlink "$link")")" "$link"; done
