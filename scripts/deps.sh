#!/bin/sh
# Ensures that the Debian packages of the named groups are installed: deps.sh build|test|mpi|fuzz|format|browser|python|deb|fresh ...
# Installs missing packages if that needs no password; otherwise prints the command to run.
# `deps.sh --names GROUP...` prints the names of the packages instead.
set -eu

names=
[ "${1:-}" != --names ] || { names=yes; shift; }
wanted=
for group in "$@"; do
  case $group in
  build) wanted="$wanted make gcc cmake ninja-build pkg-config libc6-dev libjansson-dev libpcre2-dev libonig-dev libutf8proc-dev libsqlite3-dev
                 libdnnl-dev liblapacke-dev libopenblas-pthread-dev zlib1g-dev libbz2-dev libcsv-dev libmicrohttpd-dev libjs-vega" ;;
  test) wanted="$wanted g++ libcmocka-dev procps python3" ;; # tools that the tests use
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

known() { # in the lists that apt has here
  apt-cache show "$1" >/dev/null 2>&1
}

if [ "$(id -u)" = 0 ]; then
  as_root="env"
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
  as_root="sudo"
else
  command="apt-get install$missing"
  for package in $missing; do
    known "$package" || command="$(realpath "$0") $*" # deps.sh fetches package lists, and libjs-vega from Debian
  done
  echo "These Debian packages are missing; run: sudo $command" >&2
  exit 1
fi
echo "Installing:$missing"
install() {
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
}

# Ubuntu 22.04 has no libjs-vega. Debian's package has only JavaScript files, so it works on any system.
vega=pool/main/v/vega.js/libjs-vega_5.22.1+ds+~3.1.0-4_all.deb
vega_sha256=d8f63c99756f86fe2e81af15fb79d9f9368efebc073c03d60a3678ff136bcd19
fetch_vega() {
  fetched=$(mktemp -d)
  trap 'rm -rf "$fetched"' EXIT
  chmod 755 "$fetched"
  /usr/lib/apt/apt-helper download-file "http://deb.debian.org/debian/$vega" "$fetched/libjs-vega.deb" "SHA256:$vega_sha256" ||
    { echo "deps.sh: libjs-vega could not be fetched from Debian; install it from packages.debian.org/bookworm/libjs-vega" >&2; exit 1; }
}

# Package lists are fetched only if the present ones do not have the packages.
unknown=
for package in $missing; do known "$package" || unknown="$unknown $package"; done
if [ -z "$unknown" ] && install; then exit 0; fi
$as_root apt-get update -q
unknown= names=
for package in $missing; do
  if known "$package"; then
    names="$names $package"
  elif [ "$package" = libjs-vega ]; then
    fetch_vega
    names="$names $fetched/libjs-vega.deb"
  else
    unknown="$unknown $package"
  fi
done
[ -z "$unknown" ] || { echo "This distribution has no package$unknown." >&2; exit 1; }
missing=$names
install
