#!/bin/bash
# A goal: types of elements first, then fewer heads with 8-bit elements. The report names the remedy.
# unsanitized: takes long, and unit tests run the same code
head -c 30000 $DATA/../../data/tinyshakespeare.txt >t.txt
C="crosshead compress $DATA/TinyStories-656K --calibration t.txt"
for s in 40% 0.5 74; do
  $C --cache $s --out c$s 2>/dev/null | grep -E '^cache|^Use|^In k=|^without'
done
crosshead forward c40% --tokens 1,2,3 --json >a
crosshead forward $DATA/TinyStories-656K --tokens 1,2,3 --json | cmp - a && echo the same model
grep -A3 '"eight_bit_cache"' c40%/report.json
$C --cache 90% --out d
ls -d d 2>/dev/null
echo end
