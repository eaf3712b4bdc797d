#!/bin/bash
# Shared by jobs.sh and runs.sh, which source it with PROGRAM, SOURCE and NEEDED (yes or no: MPI is required). It creates a directory
# with a text, changes to it, and removes it at the exit. Exit status 77 means skipped: no MPI.
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
# There may be more ranks than cores, and those that wait leave the processor to others. Open MPI reads the second set from version 5 on.
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
# MPICH: its UCX writes errors to standard output, for example about a container without /sys.
export UCX_LOG_LEVEL=fatal
head -c 60000 "$source/data/tinyshakespeare.txt" >text

# Jobs write results to `out` and everything else to `err`, where MPI may add warnings. Results are compared in `out` alone.
fail() { echo "FAILED: $*"; exit 1; }
show() { cat out err; }
alone() { timeout 120 "$program" "$@" >out 2>err; }
over() { # over N ARGUMENTS...: two minutes are enough for every job here
  local n=$1
  shift
  timeout 120 "$MPIRUN" -n "$n" "$program" "$@" >out 2>err
}
says() { grep -qF -- "$1" out err || { show; fail "it does not say: $1"; }; }
once() { [ "$(show | grep -cF -- "$1")" = 1 ] || { show; fail "it does not say once: $1"; }; }
words() { printf '%q ' "$@"; }
unequal() { # unequal "$(words COMMAND...)" "$(words COMMAND...)": one for each of two ranks
  # Not as `mpirun COMMAND : COMMAND`, on which the mpirun of Open MPI 5.0.7 crashes.
  timeout 60 "$MPIRUN" -n 2 bash -c '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 0 ] || eval "exec $0"; eval "exec $1"' "$1" "$2" >out 2>err
}
