#!/bin/sh
# Builds the packages of debian/control from a copy of this folder, into build/deb, and checks them with lintian: deb.sh JOBS
set -eu
cd "$(dirname "$0")/.."
for package in $(scripts/deps.sh --names build | grep -vx -e make -e gcc -e libc6-dev); do # build-essential has those
  sed -n '/^Build-Depends:/,/^[^ ]*:/p' debian/control | grep -Eqw -- "$package" ||
    { echo "deb.sh: Build-Depends in debian/control lacks $package, which scripts/deps.sh installs for the build" >&2; exit 1; }
done
rm -rf build/deb
mkdir -p build/deb/crosshead
tar --exclude=./build --exclude='./build-*' --exclude=./.git -cf - . | tar -C build/deb/crosshead -xf -
cd build/deb/crosshead
DEB_BUILD_OPTIONS="noautodbgsym ${DEB_BUILD_OPTIONS:-}" dpkg-buildpackage -us -uc -b -j"$1"
lintian --allow-root --fail-on error ../*.changes
cd ..
rm -rf crosshead
ls "$PWD"/*.deb
