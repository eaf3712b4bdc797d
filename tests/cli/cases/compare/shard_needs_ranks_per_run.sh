#!/bin/bash
crosshead compare --data $DATA/../../LICENSE --mechanisms mha --out c --engine pytorch --device cpu --shard
