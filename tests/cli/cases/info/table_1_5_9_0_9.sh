#!/bin/bash
crosshead info --table $DATA/../../configs/papers/*.json $DATA/../../configs/papers/*.json |
  grep -c '^[a-z]*-'
