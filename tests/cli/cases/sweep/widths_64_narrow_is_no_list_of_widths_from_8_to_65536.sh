#!/bin/bash
crosshead sweep --data $DATA/../../data/tinyshakespeare.txt --coordinate-check --widths 64,narrow
