#!/bin/bash
# Trains one model on the machines of a hostfile, over SSH: train-hosts.sh HOSTFILE CONFIG TEXT OUT
# HOSTFILE has a line for each machine, "name slots=RANKS". TEXT and OUT must be on a file system that all machines see.
set -eu
hostfile=$1 config=$2 text=$3 out=$4
threads=${THREADS:-4}

# After Ctrl-C, mpirun gives the ranks this many seconds to write a checkpoint. A failed job also ends that much later.
export OMPI_MCA_odls_base_sigkill_timeout=10
exec mpirun --hostfile "$hostfile" --map-by "slot:PE=$threads" --bind-to core \
  crosshead train "$config" --data "$text" --out "$out" --batch 32 --micro-batch 2 --threads "$threads"
