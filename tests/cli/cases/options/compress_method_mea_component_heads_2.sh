#!/bin/bash
# unsanitized: takes long, and unit tests run the same code
head -c 20000 $DATA/../../data/tinyshakespeare.txt >t.txt
c() {
  crosshead compress $DATA/TinyStories-656K --method mea --component-heads 2 "$@" >/dev/null 2>&1
}
c --out free && c --calibration t.txt --calibration-tokens 600 --data-free --out ignored &&
  c --calibration t.txt --calibration-tokens 600 --out used &&
  c --calibration t.txt --calibration-tokens 1200 --out more
cmp free/model.safetensors ignored/model.safetensors && echo as without
cmp -s free/model.safetensors used/model.safetensors || echo by text
cmp -s used/model.safetensors more/model.safetensors || echo by more text
