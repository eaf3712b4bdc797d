#!/bin/bash
# The manual has every variable that the program looks at.
v=$(grep -rhoE '(getenv|newly_set)\("[A-Z_]+"' $DATA/../../src | grep -oE '[A-Z_]{3,}' | grep -vx 'HOME\|PMIX_RANK' | sort -u)
for n in $v; do
  crosshead manual | sed -n '/^.SH ENVIRONMENT/,$p' | grep -q "$n" || echo "missing $n"
done
[ -n "$v" ]
