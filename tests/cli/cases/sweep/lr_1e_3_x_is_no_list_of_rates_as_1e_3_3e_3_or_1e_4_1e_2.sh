#!/bin/bash
crosshead sweep --data $DATA/../../data/tinyshakespeare.txt --lr 1e-3,x
