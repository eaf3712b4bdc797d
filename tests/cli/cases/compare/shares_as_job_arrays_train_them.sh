#!/bin/bash
# Shares, as job arrays train them; what they need is said before anything is written.
# unsanitized: takes long, and unit tests run the same code
C="crosshead compare --data $DATA/../../LICENSE --params 60k --tokens 2k --seq 32 --batch 4 --micro-batch 2 \
  --threads 1 --mechanisms mha,mqa"
for I in 1 2; do
  $C --out s --only $I/2 2>/dev/null
done
ls s | grep results
$C --out s --collect | grep -c '^m[hq]a '
$C --out n --collect
$C --out n --only two
$C --out n --only 3/2
$C --out n --only 1/2 --collect
$C --out n --only 1/2 --match time
$C --out n --micro-batch 3
$C --out n --ranks-per-run 2
ls -A n 2>/dev/null
echo end
