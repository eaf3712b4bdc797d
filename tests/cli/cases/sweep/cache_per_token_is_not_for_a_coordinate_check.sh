#!/bin/bash
crosshead sweep --data $DATA/../../data/tinyshakespeare.txt --coordinate-check --cache-per-token 64
