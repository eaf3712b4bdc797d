#!/bin/bash
crosshead compare --images $DATA/images/shapes-idx --tokens 1M
