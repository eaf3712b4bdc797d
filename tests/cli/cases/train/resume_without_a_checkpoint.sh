#!/bin/bash
crosshead train --data $DATA/../../data/tinyshakespeare.txt --out nowhere --resume
