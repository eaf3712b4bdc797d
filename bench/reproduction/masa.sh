#!/bin/sh
# MASA, Table 1: matrices of attention from shared atoms against sequential and repeated layers and low rank, at equal
# parameters, and against attention that shares nothing.
# shellcheck source=bench/reproduction/common.sh
. "$(dirname "$0")/common.sh"

claim masa "MASA and its rivals" mha,gqa:2,masa-qkv,masa-qkvo,low-rank,sequential,repeat "$@"
