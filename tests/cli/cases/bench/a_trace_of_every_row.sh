#!/bin/bash
# A trace of every row; a file that cannot be written is said, and measured rows are printed all the
# same.
crosshead bench $DATA/TinyStories-656K --prompt 8 --depth 4 --tokens 2 --repeat 1 --trace t.json >/dev/null
ls
head -c 12 t.json
grep -c '"ph":"X"' t.json
grep -o '"name":"[a-z]*: [^"]*"' t.json
grep '"cat":"span"' t.json | grep -o '"name":"[a-z]*"'
