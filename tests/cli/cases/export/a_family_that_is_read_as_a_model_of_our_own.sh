#!/bin/bash
# A family that is read as a model of our own leaves under its name.
crosshead export $DATA/reference/glm4 --format gguf --out glm.gguf &&
  crosshead export $DATA/reference/olmo3 --format gguf --out olmo.gguf
