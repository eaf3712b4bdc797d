#!/bin/bash
# A control: both losses side by side; what a signal says in each half; --force replaces the whole of
# it.
head -c 40000 $DATA/../../data/tinyshakespeare.txt >t.txt
M=$DATA/TinyStories-656K
crosshead compress $M --method mea --component-heads 2 --out small >/dev/null
T="crosshead train --init-from small --recover --control $M --data t.txt --batch 2 --seq 32 --out m"
$T --steps 3 2>/dev/null
$T --steps 2 --force --json 2>/dev/null
echo notes >m/control/notes
$T --steps 2 --force
