#!/bin/bash
crosshead compare --images $DATA/images/shapes-idx --mechanisms egmla --out side
