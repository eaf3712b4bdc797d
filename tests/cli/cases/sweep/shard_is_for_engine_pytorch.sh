#!/bin/bash
crosshead sweep --data $DATA/../../LICENSE --mechanisms mha --out c --ranks-per-run 2 --shard
