#!/bin/bash
# A folder of src/ includes only from the floors that docs/architecture.md lists above it: floors.sh SOURCE
set -eu
cd "$1"
floors=($(awk '/^## The floors/ {section = 1} section && /^```/ {fence++; next} section && fence == 1 {print $1}' docs/architecture.md))
[ ${#floors[@]} -gt 5 ] || { echo "no list of floors in docs/architecture.md"; exit 1; }
declare -A height
for i in "${!floors[@]}"; do height[${floors[i]}]=$i; done
failed=0
for folder in src/*/; do
  folder=$(basename "$folder")
  [ -n "${height[$folder]:-}" ] || { echo "src/$folder is on no floor of docs/architecture.md"; failed=1; }
done
while IFS=: read -r file _ line; do
  folder=${file#src/} folder=${folder%%/*} used=${line#*\"} used=${used%%/*}
  [ -n "${height[$used]:-}" ] || { echo "$file includes from '$used', which is no floor"; failed=1; continue; }
  [ "${height[$used]}" -le "${height[${folder}]:-0}" ] || { echo "$file includes upwards: $line"; failed=1; }
done < <(grep -rnE '^ *#include "[a-z_]+/' src --include='*.[ch]')
exit $failed
