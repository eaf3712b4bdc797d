#!/bin/sh
# Every script of this folder, one after the other; see common.sh for what can be set.
set -eu
for name in mfa kha eg_mla mea masa; do "$(dirname "$0")/$name.sh" "$@"; done
