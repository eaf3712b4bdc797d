#!/bin/bash
# Takes the README's picture of a report with headless Chromium: scripts/report_picture.sh REPORT.html PICTURE.png
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: $0 REPORT.html PICTURE.png" >&2; exit 2; }
report=$(realpath "$1")
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --virtual-time-budget=3000 --user-data-dir="$profile" \
  --window-size=1200,1680 --screenshot="$2" "file://$report" 2>/dev/null
