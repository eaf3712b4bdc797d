#!/bin/bash
# Installs the packages in DIRECTORY, uses them, and purges them, in a system that can be thrown away: try_packages.sh DIRECTORY
# In a bare system: fresh.sh SUITE --as root --copy build/deb --run 'scripts/try_packages.sh ../deb'
set -euo pipefail
packages=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export DEBIAN_FRONTEND=noninteractive CROSSHEAD_RUNS=none OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
fail() { echo "try_packages.sh: $*" >&2; exit 1; }
add() { apt-get install -y -q "$@" >"$work/log" 2>&1 || { cat "$work/log"; fail "not installed: $*"; }; }
model=tests/data/TinyStories-656K

echo "== the program alone"
add "$packages"/crosshead_*.deb
[ -z "$(dpkg-query -W -f '${Package}\n' 'libcrosshead*' 2>/dev/null)" ] || fail "the program brings the libraries"
crosshead --version
crosshead info "$model"
crosshead compare --data data/tinyshakespeare.txt --mechanisms mha,gqa:2 --params 60k --tokens 6k --seq 32 --batch 4 --vocab 300 \
  --out "$work/compare" >"$work/log" || { cat "$work/log"; fail "compare"; }
head -1 "$work/log"
[ -s "$work/compare/report.html" ] || fail "no report"
gzip -dc /usr/share/man/man1/crosshead.1.gz | grep '^\.TH' >/dev/null || fail "no manual page"

echo "== the libraries, for a program in C"
add "$packages"/libcrosshead*.deb gcc libc6-dev pkg-config
[ -z "$(pkg-config --cflags crosshead-train | tr -d ' ')" ] || fail "pkg-config --cflags prints $(pkg-config --cflags crosshead-train)"
gcc -o "$work/generate" examples/generate.c $(pkg-config --cflags --libs crosshead)
"$work/generate" "$model" "Once upon a time"
echo

echo "== Python"
add "$packages"/python3-crosshead*.deb
(cd "$work" && python3 -c "
import sys, crosshead
with crosshead.Model(sys.argv[1]) as model:
    print(crosshead.__version__, crosshead.generate(model, 'Once upon a time', max_tokens=8, temperature=0).texts()[0].text)
" "$OLDPWD/$model")

echo "== two processes over MPI"
add "$packages"/crosshead-mpi_*.deb mpi-default-bin
mpirun -n 2 crosshead train configs/tiny-gqa.json --data data/tinyshakespeare.txt --batch 4 --micro-batch 1 --seq 32 --steps 2 --threads 1 \
  --out "$work/model" >"$work/log" 2>&1 || { cat "$work/log"; fail "two processes"; }
grep -F "on each of 2 ranks" "$work/log"

echo "== purged"
apt-get purge -y -q crosshead crosshead-mpi 'libcrosshead*' python3-crosshead >"$work/log" 2>&1 || { cat "$work/log"; fail "not purged"; }
rest=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' '*crosshead*' 2>/dev/null | grep -v not-installed || true)
[ -z "$rest" ] || fail "still there: $rest"
rest=$(find /usr /etc /var -xdev -name '*crosshead*')
[ -z "$rest" ] || fail "left behind: $rest"
echo "Nothing is left."
