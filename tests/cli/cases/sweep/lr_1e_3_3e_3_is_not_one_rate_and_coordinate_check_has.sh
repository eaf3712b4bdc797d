#!/bin/bash
crosshead sweep --data $DATA/../../data/tinyshakespeare.txt --coordinate-check --lr 1e-3,3e-3
