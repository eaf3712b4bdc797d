#!/bin/bash
crosshead sweep --data $DATA/../../data/tinyshakespeare.txt --coordinate-check --tokens 1M
