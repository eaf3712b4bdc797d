#!/bin/sh
# Checks that running a model loads no database, linear algebra or archive library: needed.sh LIBCROSSHEAD
set -eu
forbidden='lib(sqlite3|lapacke?|openblas|c?blas|z|bz2|csv|crosshead-train)\.so'
named=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
[ -n "$named" ] || { echo "readelf shows nothing that $1 needs"; exit 1; }
if echo "$named" | grep -E "$forbidden"; then echo "$1 names these itself"; exit 1; fi
# What its libraries bring with them counts too.
loaded=$(ldd "$1")
if echo "$loaded" | grep -E "$forbidden"; then echo "$1 loads these through another library"; exit 1; fi
echo "$loaded" | grep -q libdnnl || { echo "ldd shows nothing of $1"; exit 1; }
