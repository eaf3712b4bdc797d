#!/bin/bash
crosshead sweep --data $DATA/../../data/tinyshakespeare.txt --widths 64,128
