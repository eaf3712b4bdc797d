#!/bin/bash
for m in svd masa; do
  crosshead compress $DATA/TinyStories-656K --method $m --ratio 0.2 --out $m 2>/dev/null &&
    crosshead compress $m --method svd --ratio 0.2 --out $m.svd 2>/dev/null &&
    crosshead compress $m --method masa --ratio 0.1 --keep v --out $m.masa 2>/dev/null &&
    crosshead compress $m --method mea --component-heads 2 --out $m.mea 2>/dev/null &&
    crosshead forward $m.masa --tokens 1,2,3,4,5,6 --cached 2 --json >/dev/null &&
    crosshead info $m.mea --json
done
