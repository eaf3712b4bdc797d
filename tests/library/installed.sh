#!/bin/sh
# Installs into a temporary prefix, builds the examples against the installed files and runs them: installed.sh BUILD SOURCE
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
for package in crosshead crosshead-train; do
  [ "$version" = "crosshead $(pkg-config --modversion $package)" ] || { echo "pkg-config's $package and $version differ"; exit 1; }
done
for file in share/man/man1/crosshead.1 share/bash-completion/completions/crosshead \
  share/zsh/site-functions/_crosshead share/fish/vendor_completions.d/crosshead.fish include/crosshead/crosshead.h \
  include/crosshead/crosshead_train.h; do
  [ -s "$prefix/$file" ] || { echo "$file is not installed"; exit 1; }
done

# Those who link the shared libraries need no other package, and get no flags of other libraries.
flags=$(PKG_CONFIG_PATH='' PKG_CONFIG_LIBDIR=$libdir/pkgconfig pkg-config --cflags crosshead crosshead-train)
set -- $flags
[ $# = 1 ] && [ "$(realpath "${1#-I}")" = "$prefix/include" ] || { echo "pkg-config --cflags prints $flags"; exit 1; }

# Every example is built four ways: shared and static, by pkg-config and by CMake. Those of <crosshead/crosshead_train.h> take the second library.
package_of() { if grep -q '<crosshead/crosshead_train.h>' "$1"; then echo crosshead-train; else echo crosshead; fi; }
archives() { [ "$1" = crosshead ] || echo "$libdir/libcrosshead-train.a"; echo "$libdir/libcrosshead.a"; }
mkdir "$work/project" "$work/shared" "$work/static"
cat >"$work/project/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(consumer LANGUAGES C)
find_package(crosshead ${version#crosshead } REQUIRED COMPONENTS train static train_static)
END
for example in "$source"/examples/*.c; do
  name=$(basename "$example" .c)
  package=$(package_of "$example")
  "$CC" -o "$work/shared/$name" "$example" $(pkg-config --cflags --libs $package)
  "$CC" -o "$work/static/$name" "$example" $(pkg-config --cflags $package) $(archives $package) \
    $(pkg-config --static --libs-only-l $package | sed 's/-lcrosshead-train//; s/-lcrosshead//') $(pkg-config --static --libs-only-other $package)
  target=$(echo $package | tr - _)
  cat >>"$work/project/CMakeLists.txt" <<END
add_executable($name $example)
target_link_libraries($name PRIVATE crosshead::$target)
add_executable(${name}_static $example)
target_link_libraries(${name}_static PRIVATE crosshead::${target}_static)
END
done
cmake -S "$work/project" -B "$work/project/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 &&
  cmake --build "$work/project/build" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

# A program that runs models needs no component, and loads the first library alone.
mkdir "$work/small"
cat >"$work/small/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(small LANGUAGES C)
find_package(crosshead ${version#crosshead } REQUIRED)
add_executable(generate $source/examples/generate.c)
target_link_libraries(generate PRIVATE crosshead::crosshead)
END
cmake -S "$work/small" -B "$work/small/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 &&
  cmake --build "$work/small/build" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
if ldd "$work/small/build/generate" | grep -E 'crosshead-train|sqlite|lapack'; then echo "generate loads too much"; exit 1; fi

# The four must write the same every time.
same() {
  name=$1
  shift
  rm -f "$work/first"
  for program in "$work/shared/$name" "$work/static/$name" "$work/project/build/$name" "$work/project/build/${name}_static"; do
    "$program" "$@" >"$work/text" || { echo "$program fails"; exit 1; }
    [ -s "$work/text" ] || { echo "$program writes nothing"; exit 1; }
    [ -e "$work/first" ] || cp "$work/text" "$work/first"
    cmp "$work/first" "$work/text"
  done
  head -c 200 "$work/first"
}
model=$source/tests/data/TinyStories-656K
same generate "$model" "Once upon a time"
same score "$model" "Once upon a time, there was a little girl named Lily" ". She loved to play" " zebra"

# Training stops when its time is over, goes on, and leaves a model; each way the same one.
head -c 60000 "$source/data/tinyshakespeare.txt" >"$work/corpus.txt"
for program in "$work/shared/train" "$work/static/train" "$work/project/build/train" "$work/project/build/train_static"; do
  rm -rf "$work/model"
  if "$program" "$source/configs/tiny-gqa.json" "$work/corpus.txt" "$work/model" 12 0 >"$work/text" 2>&1; then
    echo "$program does not stop"; exit 1
  fi
  grep -q 'after step 1 of 12' "$work/text" || { cat "$work/text"; exit 1; }
  "$program" "$source/configs/tiny-gqa.json" "$work/corpus.txt" "$work/model" 12 500 >"$work/text" || { echo "$program fails"; exit 1; }
  grep -q 'step 12 of 12: loss' "$work/text" || { cat "$work/text"; exit 1; }
  [ -e "$work/trained" ] || cp "$work/model/model.safetensors" "$work/trained"
  cmp "$work/trained" "$work/model/model.safetensors"
done
"$work/shared/generate" "$work/model" "First Citizen" >"$work/text"
[ -s "$work/text" ] || { echo "the trained model writes nothing"; exit 1; }
