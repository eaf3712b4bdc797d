#!/bin/bash
# Files that other commands read, with the size that was asked for.
crosshead config MLA --params 300M >large.json
crosshead info large.json --json | grep -o '"parameters_total": *[0-9]*' |
  awk '{ print ($2 > 299e6 && $2 < 301e6 ? "within 1M of 300M" : $0) }'
crosshead plan large.json --context 1k --device l4 | grep -q 'large.json'
