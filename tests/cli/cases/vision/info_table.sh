#!/bin/bash
crosshead info $DATA/../../configs/tiny-vit.json && crosshead info $DATA/../../configs/tiny-vit.json --json &&
  crosshead info --table $DATA/../../configs/tiny-vit.json
