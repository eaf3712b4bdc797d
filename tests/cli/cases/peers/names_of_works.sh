#!/bin/bash
# Names of works; what is asked for and does not exist.
peers=$DATA/../../bench/peers
command -v python3 >/dev/null || {
  echo 'train A f32'
  exit
}
python3 $peers/compare.py --list
