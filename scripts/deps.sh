#!/bin/sh
# Makes sure that the Debian packages of the named groups are installed: deps.sh build|test|mpi|fuzz|format|browser|python|deb|fresh ...
# Installs what is missing where that is allowed without a question; else prints the one command to run.
# `deps.sh --names GROUP...` prints the names of the packages instead.
set -eu

names=
[ "${1:-}" != --names ] || { names=yes; shift; }
wanted=
for group in "$@"; do
  case $group in
  build) wanted="$wanted make gcc cmake ninja-build pkg-config libc6-dev libjansson-dev libpcre2-dev libonig-dev libutf8proc-dev libsqlite3-dev
                 libdnnl-dev liblapacke-dev libopenblas-pthread-dev zlib1g-dev libbz2-dev libcsv-dev libjs-vega" ;;
  test) wanted="$wanted g++ libcmocka-dev procps python3" ;; # what the tests need beside what they test
  mpi) wanted="$wanted libopenmpi-dev openmpi-bin" ;; # training over several processes; MPICH (libmpich-dev mpich) does too
  fuzz) wanted="$wanted clang libclang-rt-dev libomp-dev" ;;
  browser) wanted="$wanted chromium" ;; # the tests of report pages; they are skipped without it
  python) wanted="$wanted python3 python3-venv" ;; # the tests of exported models in PyTorch; the rest comes from PyPI
  deb) wanted="$wanted build-essential debhelper dh-python lintian mpi-default-dev python3 python3-cffi" ;; # Debian packages, with 'build'
  fresh) wanted="$wanted debootstrap" ;; # bare systems, by fresh.sh
  format) wanted="$wanted clang-format clang-tidy" ;;
  *) echo "deps.sh: unknown group '$group'; it is one of build, test, mpi, fuzz, format, browser, python, deb or fresh" >&2; exit 2 ;;
  esac
done
[ -z "$names" ] || { printf '%s\n' $wanted; exit 0; }

if ! command -v dpkg-query >/dev/null 2>&1; then
  echo "deps.sh: not a Debian system; install the equivalents of:" $wanted >&2
  exit 0
fi
missing=
for package in $wanted; do
  dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
  as_root="env"
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
  as_root="sudo"
else
  echo "These Debian packages are missing; run: sudo apt-get install$missing" >&2
  exit 1
fi
echo "Installing:$missing"
# Package lists are fetched only when the ones here do not lead to the packages.
install() {
  $as_root DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
}
if apt-cache show $missing >/dev/null 2>&1 && install; then exit 0; fi
$as_root apt-get update -q
unknown=
for package in $missing; do
  apt-cache show "$package" >/dev/null 2>&1 || unknown="$unknown $package"
done
if [ -n "$unknown" ]; then
  echo "This distribution has no package$unknown." >&2
  case $unknown in
  *libjs-vega*) # Ubuntu 22.04
    echo "Debian's libjs-vega serves here too: download it from packages.debian.org/bookworm/libjs-vega, then apt-get install ./libjs-vega_*.deb" >&2
    ;;
  esac
  exit 1
fi
install
