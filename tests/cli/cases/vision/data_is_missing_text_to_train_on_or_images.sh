#!/bin/bash
crosshead train $DATA/../../configs/tiny-vit.json --out run
