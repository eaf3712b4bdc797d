#!/bin/bash
# What jobs.sh and runs.sh share: sourced with the PROGRAM, the SOURCE and whether MPI is NEEDED (yes or no). Makes an empty directory
# with a text, goes there, and leaves it behind at the exit. Exit status 77 means skipped: no MPI.
set -eu
program=$1 source=$2
MPIRUN=${MPIRUN:-mpirun} # that of the MPI that the module was built with
if [ "$3" = yes ]; then
  [ -f "$(dirname "$program")/crosshead-mpi.so" ] || { echo "skipped: this build has no MPI"; exit 77; }
  command -v "$MPIRUN" >/dev/null || { echo "skipped: $MPIRUN is not installed"; exit 77; }
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMP_NUM_THREADS=1 CROSSHEAD_RUNS=none
# Open MPI: root is allowed, and messages go through memory and the loopback alone.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
# Ranks that wait leave the processor to others.
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
head -c 60000 "$source/data/tinyshakespeare.txt" >text

fail() { echo "FAILED: $*"; exit 1; }
alone() { timeout 120 "$program" "$@" >out 2>&1; }
over() { # over N ARGUMENTS...: two minutes are enough for every job here
  local n=$1
  shift
  timeout 120 "$MPIRUN" -n "$n" "$program" "$@" >out 2>&1
}
says() { grep -qF -- "$1" out || { cat out; fail "it does not say: $1"; }; }
once() { [ "$(grep -cF -- "$1" out)" = 1 ] || { cat out; fail "it does not say once: $1"; }; }
