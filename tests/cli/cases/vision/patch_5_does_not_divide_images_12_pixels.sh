#!/bin/bash
crosshead compare --images $DATA/images/shapes-idx --patch 5 --out side
