#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# bare_roots.sh WHEELS [SYSTEM...]: `pip install` of a wheel and a first trained model in bare systems, each a folder with that
# distribution's python3 and what it needs, and nothing of Ebb's. WHEELS is a folder of wheels, the one for a system's Python is
# taken. Needs root, a network and the distributions' keyrings (KEYRINGS=/usr/share/keyrings).
# Systems: debian/bookworm (Python 3.11), debian/trixie (3.13), ubuntu/jammy (3.10), ubuntu/noble (3.12).
set -euo pipefail
wheels=$(cd "$1" && pwd)
shift
systems=${*:-debian/bookworm debian/trixie ubuntu/jammy ubuntu/noble}
keyrings=${KEYRINGS:-/usr/share/keyrings}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
printf '%-16s %-7s %-7s %-52s %s\n' system glibc python wheel 'install, first model'

for system in $systems; do
  suite=${system#*/} root=$work/$suite/root
  mkdir -p "$work/$suite"/{lists/partial,cache/archives/partial,parts} "$root"/{tmp,proc,dev}
  : >"$work/$suite/status"
  case $system in
    debian/*) echo "deb [signed-by=$keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main" ;;
    ubuntu/*) echo "deb [signed-by=$keyrings/ubuntu-archive-keyring.gpg] http://archive.ubuntu.com/ubuntu $suite main universe" ;;
  esac >"$work/$suite/sources.list"
  options=(-qq -o Dir::State="$work/$suite" -o Dir::State::status="$work/$suite/status" -o Dir::Cache="$work/$suite/cache"
    -o Dir::Etc::sourcelist="$work/$suite/sources.list" -o Dir::Etc::sourceparts="$work/$suite/parts" -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update
  apt-get "${options[@]}" install -y --no-install-recommends --download-only python3 python3-venv ca-certificates libstdc++6 bash coreutils libc-bin >/dev/null
  for deb in "$work/$suite"/cache/archives/*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$root"; done
  [ -e "$root/lib64" ] || ln -s usr/lib64 "$root/lib64"
  for merged in bin sbin lib lib64; do [ -e "$root/$merged" ] || ln -s "usr/$merged" "$root/$merged"; done
  mkdir -p "$root/etc/ssl/certs" && cat "$root"/usr/share/ca-certificates/mozilla/*.crt >"$root/etc/ssl/certs/ca-certificates.crt"
  mkdir -p "$root/wheels" && cp "$wheels"/*.whl "$root/wheels"
  cat >"$root/inside.sh" <<'INSIDE'
set -e
version=$(python3 -c 'import sys; print("%d%d" % sys.version_info[:2])')
wheel=$(echo /wheels/*-cp"$version"-*.whl)
[ -e "$wheel" ] || wheel=$(echo /wheels/*-abi3-*.whl)
[ -e "$wheel" ] || { echo "no wheel for Python $version"; exit 1; }
start=$(date +%s.%N)
python3 -m venv /tmp/venv
/tmp/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-index "$wheel" >/tmp/pip.log 2>&1 || { cat /tmp/pip.log; exit 1; }
middle=$(date +%s.%N)
/tmp/venv/bin/ebb train --model mlp --train-count 2000 --test-count 500 --epochs 2 --out /tmp/run >/tmp/log
/tmp/venv/bin/python -c 'import ebb; assert ebb.grad(lambda x: (x ** 2).sum())(ebb.tensor([1.0, 2.0])).tolist() == [2, 4]'
python3 - "$(basename "$wheel")" "$start" "$middle" "$(date +%s.%N)" <<'PY'
import platform, sys
wheel, *times = sys.argv[1:]
a, b, c = map(float, times)
print(f"{platform.libc_ver()[1]:7} {platform.python_version()[:6]:7} {wheel:52} {b - a:.1f} s, {c - b:.1f} s")
PY
INSIDE
  printf '%-16s ' "$system"
  unshare -m bash -c "mount --bind /dev '$root/dev' && mount --bind /proc '$root/proc' &&
    exec chroot '$root' /usr/bin/env -i PATH=/usr/bin:/bin:/usr/sbin HOME=/tmp bash /inside.sh" 2>&1 || failed=1
  rm -rf "${work:?}/$suite"
done
exit $failed
