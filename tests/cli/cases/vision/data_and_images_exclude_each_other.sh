#!/bin/bash
crosshead compare --images $DATA/images/shapes-idx --data x
