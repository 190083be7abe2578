#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# pack.sh: makes build/elsewhere, everything that an x86-64 machine with a compiler and without a network needs to build and
# test this tree:
#   packages/root.tar.xz   Debian's libraries and headers, unpacked
#   packages/site.tar.xz   Python packages, all of them pure Python
#   ebb.tar                the tracked and the new files of the tree with packages/ in its place: all that has to be copied
# there.sh says what to do with it there. Runs on any Debian with a network, of any architecture, without root; half a minute.
set -euo pipefail
export XZ_OPT=-3
cd "$(dirname "$0")/../.."
out=$PWD/build/elsewhere
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out/packages" "$work"/{apt/lists/partial,apt/cache/archives/partial,debs,root,wheels,site}

# apt for the other machine's architecture, with a state of its own: the packages of this machine are left alone.
: >"$work/apt/status"
options=(-qq -o APT::Architecture=amd64 -o APT::Architectures=amd64 -o Dir::State="$work/apt" -o Dir::State::status="$work/apt/status"
  -o Dir::Cache="$work/apt/cache" -o APT::Sandbox::User="$(id -un)")
apt-get "${options[@]}" update
closure() {  # what the packages $@ need, themselves included
  apt-cache "${options[@]}" depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances "$@" |
    grep '^[a-z]' | sort -u
}
# shellcheck disable=SC2016
of_makefile() { printf 'include Makefile\nprint:;@echo $(%s)\n' "$1" | make -s -f - print; }
tools='^(g[+][+]|cmake|ninja-build|ccache|pkg-config)$'  # are there
libraries=$(of_makefile PACKAGES | tr ' ' '\n' | grep -vE "$tools")
# A machine with a compiler has the C and C++ libraries and what every system is made of; of OpenBLAS one kind is enough.
closure libc6-dev libstdc++6 openssh-client libhwloc-plugins | grep -vE '^(zlib1g|libudev1|libhwloc15)$' >"$work/there"
# shellcheck disable=SC2086
closure $libraries openmpi-bin | grep -vxFf "$work/there" | grep -vE 'openblas.*-(openmp|serial)' >"$work/wanted"
(cd "$work/debs" && xargs apt-get "${options[@]}" download <"$work/wanted")

for deb in "$work"/debs/*.deb; do dpkg-deb -x "$deb" "$work/root"; done
cd "$work/root"
[ ! -d lib ] || { cp -a lib/. usr/lib/ && rm -rf lib; }
rm -rf etc/init.d usr/share/doc usr/share/man usr/share/lintian var
find usr -name 'libopenblas*.a' -delete
lib=usr/lib/x86_64-linux-gnu  # what update-alternatives does when packages are installed
for file in libopenblas.so libopenblas.so.0 pkgconfig/openblas.pc; do
  [ -e $lib/$file ] || ln -sr "$lib/openblas-pthread/$file" "$lib/$file"
done
ln -sf mpirun.openmpi usr/bin/mpirun
tar -cJf "$out/packages/root.tar.xz" .

# Of any version of Python: wheels without machine code. mypy was compiled from 1.14 on; pip itself is there.
cd "$work"
# shellcheck disable=SC2086
python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: --implementation py --abi none --platform any -d wheels \
  nanobind scikit-build-core pathspec packaging pytest pluggy iniconfig pygments einops markdown 'mypy<1.14' mypy_extensions \
  typing_extensions tomli exceptiongroup expecttest 'hypothesis<6.130' sortedcontainers attrs ${EXTRA_WHEELS-}
for wheel in wheels/*.whl; do python3 -m zipfile -e "$wheel" site; done
tar -cJf "$out/packages/site.tar.xz" -C site .

cd "$out/../.."
git ls-files -z --cached --others --exclude-standard | xargs -0 ls -d 2>/dev/null | tar --transform 's,^,ebb/,' -cf "$out/ebb.tar" -T -
tar --transform 's,^,ebb/,' -rf "$out/ebb.tar" build/elsewhere/packages
ls -l "$out"/packages/* "$out/ebb.tar"
