#!/bin/bash
# Builds for aarch64 with a cross compiler and runs tests under qemu: cross_arm64.sh. It needs root on a Debian system that may lose
# the development packages of its own architecture, because not all can be installed for two architectures. In a bare system:
#   fresh.sh trixie --as root --copy ../shared --run scripts/cross_arm64.sh
set -euo pipefail
cd "$(dirname "$0")/.."
export DEBIAN_FRONTEND=noninteractive
jobs=$(nproc)

dpkg --add-architecture arm64
apt-get update -q
apt-get install -y -q --no-install-recommends make cmake ninja-build pkg-config python3 gcc-aarch64-linux-gnu qemu-user libjs-vega \
  libcmocka-dev:arm64 $(scripts/deps.sh --names build | sed -n 's/-dev$/&:arm64/p')

export PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig
cmake -S . -B build-arm64 -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64 -DCROSSHEAD_MPI=OFF -DCROSSHEAD_WERROR=ON
tests=(test_reference_model test_reference_models test_kernels_products test_tokenizer test_safetensors test_config_families)
cmake --build build-arm64 -j "$jobs" --target crosshead_program "${tests[@]}"

ctest --test-dir build-arm64 --output-on-failure -j "$jobs" -R "^($(IFS='|'; echo "${tests[*]}"))\$"
printf '#!/bin/sh\nexec qemu-aarch64 "%s/build-arm64/crosshead" "$@"\n' "$PWD" >build-arm64/emulated
chmod +x build-arm64/emulated
build-arm64/emulated --version
status=0
tests/vectors.sh "$PWD/build-arm64/emulated" "$PWD/../shared/vectors" tests/data/golden_pending.txt || status=$?
[ "$status" = 0 ] || [ "$status" = 77 ]
