#!/bin/bash
crosshead train c.json --data text.txt --gpus 8 --out out
