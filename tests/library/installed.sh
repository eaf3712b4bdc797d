#!/bin/sh
# Installs into a temporary prefix and builds the example against what lies there: installed.sh BUILD SOURCE
set -eu
build=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
cmake --install "$build" --prefix "$prefix" >"$work/log" || { cat "$work/log"; exit 1; }
libdir=$(dirname "$(find "$prefix" -name libcrosshead.so)")
PKG_CONFIG_PATH=$libdir/pkgconfig
LD_LIBRARY_PATH=$libdir
export PKG_CONFIG_PATH LD_LIBRARY_PATH

# What a user finds.
version=$("$prefix/bin/crosshead" --version)
[ "$version" = "crosshead $(pkg-config --modversion crosshead)" ] || { echo "pkg-config and $version differ"; exit 1; }
for file in share/man/man1/crosshead.1 share/bash-completion/completions/crosshead \
  share/zsh/site-functions/_crosshead share/fish/vendor_completions.d/crosshead.fish include/crosshead/crosshead.h; do
  [ -s "$prefix/$file" ] || { echo "$file is not installed"; exit 1; }
done

# The example program, built four ways, must write the same text every time.
example=$source/examples/generate.c
"$CC" -o "$work/shared" "$example" $(pkg-config --cflags --libs crosshead)
"$CC" -o "$work/static" "$example" $(pkg-config --cflags crosshead) "$libdir/libcrosshead.a" \
  $(pkg-config --static --libs-only-l crosshead | sed 's/-lcrosshead//') $(pkg-config --static --libs-only-other crosshead)
mkdir "$work/project"
cat >"$work/project/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.22)
project(consumer LANGUAGES C)
find_package(crosshead ${version#crosshead } REQUIRED COMPONENTS static)
add_executable(by_cmake $example)
target_link_libraries(by_cmake PRIVATE crosshead::crosshead)
add_executable(by_cmake_static $example)
target_link_libraries(by_cmake_static PRIVATE crosshead::crosshead_static)
EOF
cmake -S "$work/project" -B "$work/project/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 &&
  cmake --build "$work/project/build" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
model=$source/tests/data/TinyStories-656K
for program in "$work/shared" "$work/static" "$work/project/build/by_cmake" "$work/project/build/by_cmake_static"; do
  "$program" "$model" "Once upon a time" >"$work/text" || { echo "$program fails"; exit 1; }
  [ -s "$work/text" ] || { echo "$program writes nothing"; exit 1; }
  [ ! -e "$work/first" ] && cp "$work/text" "$work/first"
  cmp "$work/first" "$work/text"
done
head -c 200 "$work/first"
