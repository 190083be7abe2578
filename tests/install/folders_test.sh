#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# folders_test.sh SOURCE BUILD: what a package maintainer asks of an installation. The libraries and the program of BUILD are
# installed as if they had been built for other folders and another name of the program, into a DESTDIR, and moved from there; then
# programs are built against them.
set -euo pipefail
source=$1 built=$2
cmake=${CMAKE:-cmake}
cxx=${CXX:-c++}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "$*"
  exit 1
}

configure() {
  "$cmake" -S "$source" -B "$work/build" -DCMAKE_CXX_COMPILER="$cxx" -DEBB_BUILD_TESTS=OFF -DEBB_BUILD_EXAMPLES=OFF \
    -DEBB_BUILD_BENCH=OFF "$@" >"$work/log" 2>&1 || { tail -20 "$work/log"; exit 1; }
}
configure -DCMAKE_INSTALL_LIBDIR=lib64 -DCMAKE_INSTALL_INCLUDEDIR=include/ebb-0 -DEBB_PROGRAM_NAME=ebb-cli
cp -P "$built"/libebb.* "$work/build"
cp "$built/tools/ebb/ebb" "$work/build/tools/ebb/ebb-cli"
for component in development static shared program; do
  DESTDIR=$work/stage "$cmake" --install "$work/build" --prefix /opt/ebb --component $component >/dev/null
done
[ "$(ls "$work/stage")" = opt ] || fail "files outside of the prefix: $(ls "$work/stage")"
moved=$work/moved
mv "$work/stage/opt/ebb" "$moved"
for file in bin/ebb-cli share/man/man1/ebb-cli.1 share/bash-completion/completions/ebb-cli share/zsh/site-functions/_ebb-cli \
  share/fish/vendor_completions.d/ebb-cli.fish lib64/libebb.a lib64/pkgconfig/ebb.pc include/ebb-0/ebb/ebb.h; do
  [ -s "$moved/$file" ] || fail "$file is missing"
done
! grep -rl "$work" "$moved/lib64" --include='*.cmake' --include='*.pc' || fail "a file knows where it was built"

found=-Debb_DIR=$moved/lib64/cmake/ebb  # Debian's CMake does not look into lib64 by itself
for shared in OFF ON; do
  "$cmake" -S "$source/tests/install" -B "$work/$shared" "$found" -DCMAKE_CXX_COMPILER="$cxx" \
    -DBUILD_SHARED_LIBS=$shared >/dev/null
  "$cmake" --build "$work/$shared" >/dev/null
  "$work/$shared/consumer"
done
export PKG_CONFIG_PATH=$moved/lib64/pkgconfig
mkdir "$work/only_static"
ln -s "$moved/lib64/libebb.a" "$work/only_static"
for static in "" --static; do
  # shellcheck disable=SC2046,SC2086
  "$cxx" -std=c++20 "$source/tests/install/consumer.cc" -o "$work/consumer" ${static:+-L"$work/only_static"} $(pkg-config $static --cflags --libs ebb)
  LD_LIBRARY_PATH=$moved/lib64 "$work/consumer"
done
[ "$(pkg-config --modversion ebb)" = "$("$moved/bin/ebb-cli" --version | cut -d' ' -f2)" ] || fail "two versions"

echo "two folders of a project, and another minor version:"
mkdir -p "$work/project/one" "$work/project/two"
echo 'cmake_minimum_required(VERSION 3.25)
project(two_folders CXX)
add_subdirectory(one)
add_subdirectory(two)
find_package(ebb 0.2 CONFIG QUIET)
if(ebb_FOUND OR NOT ebb_CONSIDERED_VERSIONS MATCHES "^0[.]1")
  message(FATAL_ERROR "0.2 is found in ${ebb_CONSIDERED_VERSIONS}")
endif()' >"$work/project/CMakeLists.txt"
for name in one two; do
  echo "find_package(ebb CONFIG REQUIRED)
find_package(ebb 0.1 REQUIRED)
add_executable($name $source/tests/install/consumer.cc)
target_link_libraries($name PRIVATE ebb::ebb)" >"$work/project/$name/CMakeLists.txt"
done
"$cmake" -S "$work/project" -B "$work/two_folders" "$found" -DCMAKE_CXX_COMPILER="$cxx" >/dev/null
"$cmake" --build "$work/two_folders" >/dev/null
"$work/two_folders/one/one" && "$work/two_folders/two/two"

echo "absolute folders:"
configure -DCMAKE_INSTALL_PREFIX=/opt/ebb -DCMAKE_INSTALL_LIBDIR=/opt/libraries -DCMAKE_INSTALL_INCLUDEDIR=/opt/headers
export PKG_CONFIG_PATH=$work/build
read -ra flags < <(pkg-config --cflags --libs ebb)
[ "${flags[*]}" = "-I/opt/headers -L/opt/libraries -lebb" ] || fail "${flags[*]}"
