#!/bin/bash
crosshead compress $DATA/TinyStories-656K --method mea --component-heads 2 --out small 2>/dev/null &&
  crosshead info small --json && cat small/report.json &&
  crosshead forward small --tokens 1,2,3,4,5,6 --cached 2 --json &&
  crosshead generate small --prompt 'One day' --max-tokens 3 >/dev/null 2>&1 &&
  ls -d small.partial 2>/dev/null || echo clean && test -s small/report.html && test -s small/tokenizer.json
