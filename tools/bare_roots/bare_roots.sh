#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# bare_roots.sh WHEELS [SYSTEM...]: from `pip install` of a wheel to a first trained model, and to a first step of a patched
# PyTorch model, in bare systems of other distributions: folders with that distribution's python3 and what it needs, and nothing
# of Ebb's. Each has to take less than 60 seconds. Prints one row of a Markdown table per system.
#
# WHEELS is a folder of wheels (python/tools/all_wheels.sh); pip in the system takes the one that fits. Needs root, a network and
# the distributions' keyrings in the folder KEYRINGS (/usr/share/keyrings); DEBIAN_MIRROR and UBUNTU_MIRROR say where their packages
# are. A system is DISTRIBUTION/SUITE, of Debian or Ubuntu.
# NumPy 1 and 2 and transformers come from PyPI, PyTorch is the distribution's package where that is 2.1 or later, else an
# installed one that is mounted: TORCH_311=/somewhere/lib/python3.11/site-packages for the system with Python 3.11. Where there
# is none the row says so.
#
# ARCHITECTURE=arm64 tries systems of another processor, where the kernel knows how to run their programs (qemu-user-static), and
# LIMIT=600 gives an emulator more than 60 seconds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
wheels=$(cd "$1" && pwd)
shift
systems=${*:-debian/bullseye debian/bookworm debian/trixie debian/forky ubuntu/jammy ubuntu/noble ubuntu/questing}
keyrings=${KEYRINGS:-/usr/share/keyrings}
architecture=${ARCHITECTURE:-$(dpkg --print-architecture)}
case $architecture in amd64) machine=x86_64 ;; arm64) machine=aarch64 ;; *) machine=$architecture ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
echo '| system | glibc | Python | wheel | first model | without NumPy | NumPy 1 | NumPy 2 | PyTorch | patched step |'
echo '|---|---|---|---|---|---|---|---|---|---|'

# apt-get or apt-cache for the packages of another system, with its lists in a folder.
apt_of() {  # FOLDER PROGRAM ARGUMENT...
  local folder=$1 program=$2
  shift 2
  "$program" -qq -o Dir::State="$folder" -o Dir::State::status="$folder/status" -o Dir::Cache="$folder/cache" \
    -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts="$folder/parts" -o APT::Sandbox::User=root \
    -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" "$@"
}

make_root() {  # SYSTEM FOLDER: a root file system in FOLDER/system
  local system=$1 folder=$2 suite=${1#*/} root=$2/system torch packages
  mkdir -p "$folder"/{lists/partial,cache/archives/partial,parts} "$root"/{tmp,proc,dev,wheels,extra,peers}
  : >"$folder/status"
  case $system in
    debian/*) echo "deb [signed-by=$keyrings/debian-archive-keyring.gpg] ${DEBIAN_MIRROR:?the address of a mirror of Debian} $suite main" ;;
    ubuntu/*) echo "deb [signed-by=$keyrings/ubuntu-archive-keyring.gpg] ${UBUNTU_MIRROR:?the address of a mirror of Ubuntu} $suite main universe" ;;
  esac >"$folder/sources.list"
  apt_of "$folder" apt-get update
  packages="python3 python3-venv python3-pip ca-certificates libstdc++6 bash coreutils libc-bin"
  torch=$(apt_of "$folder" apt-cache show python3-torch 2>/dev/null | sed -n 's/^Version: //p' | head -1)
  if [ -n "$torch" ] && dpkg --compare-versions "$torch" ge 2.1; then packages+=" python3-torch"; fi
  # shellcheck disable=SC2086
  apt_of "$folder" apt-get install -y --no-install-recommends --download-only $packages >/dev/null
  for deb in "$folder"/cache/archives/*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$root"; done
  for merged in bin sbin lib lib64; do [ -e "$root/$merged" ] || ln -s "usr/$merged" "$root/$merged"; done
  # What the packages' scripts would have made: certificates in one file, without which pip does not start, and links.
  mkdir -p "$root/etc/ssl/certs" && cat "$root"/usr/share/ca-certificates/mozilla/*.crt >"$root/etc/ssl/certs/ca-certificates.crt"
  for library in libblas.so.3 liblapack.so.3; do
    for found in "$root"/usr/lib/*/*/"$library"; do
      if [ -e "$found" ]; then ln -sf "$(basename "$(dirname "$found")")/$library" "$(dirname "$(dirname "$found")")/$library"; break; fi
    done
  done
  cp "$wheels"/*.whl "$root/wheels"
  cp "$here/inside.sh" "$here/first_patched_step.py" "$root"
}

# PyPI's packages for the Python of a root, downloaded here: certificates and proxies are this system's matter.
download_extras() {  # FOLDER PYTHON
  local version=$2 download tag
  download=(python3 -m pip download --quiet --disable-pip-version-check --only-binary=:all: --python-version "$version"
    --implementation cp --abi "cp${version/./}" --abi abi3 --abi none --platform any)
  for tag in manylinux_2_28 manylinux_2_27 manylinux2014 manylinux_2_17; do download+=(--platform "${tag}_$machine"); done
  "${download[@]}" --no-deps --dest "$1/system/extra/numpy1" 'numpy<2' 2>/dev/null || true
  "${download[@]}" --no-deps --dest "$1/system/extra/numpy2" 'numpy>=2' 2>/dev/null || true
  "${download[@]}" --dest "$1/system/extra/transformers" transformers 2>/dev/null || true
}

for system in $systems; do
  folder=$work/${system#*/} root=$work/${system#*/}/system
  make_root "$system" "$folder"
  version=$(chroot "$root" /usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  download_extras "$folder" "$version"
  torch=TORCH_${version/./} mount_torch=true
  if [ -n "${!torch:-}" ]; then mount_torch="mount --bind '${!torch}' '$root/peers'"; fi
  printf '| %s ' "$system"
  unshare -m bash -c "mount --bind /dev '$root/dev' && mount --bind /proc '$root/proc' && $mount_torch &&
    exec chroot '$root' /usr/bin/env -i PATH=/usr/bin:/bin:/usr/sbin HOME=/tmp LIMIT=${LIMIT:-60} bash /inside.sh" 2>"$folder/errors" ||
    { failed=1; echo; tail -12 "$folder/errors"; }
  rm -rf "${folder:?}"
done
exit $failed
