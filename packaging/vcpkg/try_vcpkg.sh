#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# try_vcpkg.sh VCPKG_ROOT [TRIPLET...]: vcpkg itself installs the port, with empty ports in place of its dependencies, so that this
# system's libraries are found and nothing is downloaded; then a program is built and run against what was installed. Triplets are
# x64-linux and x64-linux-dynamic unless given; TRIPLETS=FOLDER has others of these names.
set -euo pipefail
root=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")"
ports=$PWD/ports tree=$(cd ../.. && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
empty() {  # NAME [FIELDS]
  mkdir -p "$work/ports/$1"
  echo "{ \"name\": \"$1\", \"version-string\": \"system\"${2-} }" >"$work/ports/$1/vcpkg.json"
  echo 'set(VCPKG_POLICY_EMPTY_PACKAGE enabled)' >"$work/ports/$1/portfile.cmake"
}
for name in cli11 fmt highway lapack libjpeg-turbo libpng nlohmann-json pkgconf random123 zlib; do empty $name; done
empty openblas ', "features": { "dynamic-arch": { "description": "-" }, "threads": { "description": "-" } }'
# vcpkg looks for pkg-config in the package alone.
echo 'file(MAKE_DIRECTORY "${CURRENT_PACKAGES_DIR}/tools/pkgconf")
find_program(PKG_CONFIG pkg-config REQUIRED)
file(CREATE_LINK "${PKG_CONFIG}" "${CURRENT_PACKAGES_DIR}/tools/pkgconf/pkgconf" SYMBOLIC)' >>"$work/ports/pkgconf/portfile.cmake"

export VCPKG_ROOT=$root VCPKG_FORCE_SYSTEM_BINARIES=1 VCPKG_BINARY_SOURCES=clear VCPKG_DISABLE_METRICS=1
[ $# -gt 0 ] || set -- x64-linux x64-linux-dynamic
for triplet in "$@"; do
  "$root/vcpkg" install "ebb-grad[program]:$triplet" --overlay-ports="$ports" --overlay-ports="$work/ports" \
    ${TRIPLETS:+--overlay-triplets="$TRIPLETS"} --x-buildtrees-root="$tree/build/vcpkg" --x-packages-root="$work/packages" \
    --x-install-root="$work/installed" >"$work/log" 2>&1 || { tail -40 "$work/log"; exit 1; }
  if grep -iE '(warning|error):' "$work/log"; then echo "vcpkg is not content with the port"; exit 1; fi
  cmake -S "$tree/tests/install" -B "$work/$triplet" -DCMAKE_TOOLCHAIN_FILE="$root/scripts/buildsystems/vcpkg.cmake" \
    -DVCPKG_TARGET_TRIPLET="$triplet" -DVCPKG_INSTALLED_DIR="$work/installed" -DVCPKG_MANIFEST_MODE=OFF \
    -DCMAKE_BUILD_TYPE=Release >/dev/null
  cmake --build "$work/$triplet" >/dev/null
  "$work/$triplet/consumer"
  kind=static
  if readelf -d "$work/$triplet/consumer" | grep -q 'NEEDED.*libebb\.so'; then kind=dynamic; fi
  case $triplet in *dynamic*) [ $kind = dynamic ] ;; *) [ $kind = static ] ;; esac || { echo "$triplet has the $kind library"; exit 1; }
  "$work/installed/$triplet/tools/ebb-grad/ebb" --version
  echo "$triplet: $(find "$work/installed/$triplet" -type f | wc -l) files"
done
