#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# try.sh: runs the port with stand-ins for vcpkg's functions and this system's libraries, for both kinds of triplet, and builds and
# runs a program against what it installs.
set -euo pipefail
cd "$(dirname "$0")"
port=$PWD/ports/ebb-grad tree=$(cd ../.. && pwd)
python3 -m json.tool "$port/vcpkg.json" >/dev/null
version=$(sed -n 's/^project(ebb VERSION \([0-9.]*\).*/\1/p' "$tree/CMakeLists.txt")
grep -q "\"version\": \"$version\"" "$port/vcpkg.json" || { echo "the port is not of version $version"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for linkage in static dynamic; do
  mkdir -p "$work/$linkage"
  # CMake takes the folder of the file it runs for the port's, so the stand-ins come before the port in one file there.
  cat stand_ins.cmake "$port/portfile.cmake" >"$port/.try.cmake"
  cmake -DPORT=ebb-grad -DFEATURES=core -DVCPKG_LIBRARY_LINKAGE=$linkage -DCURRENT_PACKAGES_DIR="$work/$linkage/packages" \
    -DBUILD="$tree/build/vcpkg" -P "$port/.try.cmake" || { rm -f "$port/.try.cmake"; exit 1; }
  rm -f "$port/.try.cmake"
  cmake -S "$tree/tests/install" -B "$work/$linkage/build" -DCMAKE_PREFIX_PATH="$work/$linkage/packages" \
    -Debb_DIR="$work/$linkage/packages/share/ebb" >/dev/null
  cmake --build "$work/$linkage/build" >/dev/null
  "$work/$linkage/build/consumer"
  kind=static
  if readelf -d "$work/$linkage/build/consumer" | grep -q 'NEEDED.*libebb\.so'; then kind=dynamic; fi
  [ $kind = $linkage ] || { echo "the $linkage triplet has the $kind library"; exit 1; }
  echo "$linkage: $(find "$work/$linkage/packages" -type f | wc -l) files"
done
