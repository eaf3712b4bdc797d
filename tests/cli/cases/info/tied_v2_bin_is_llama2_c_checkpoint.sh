#!/bin/bash
# Files of other programs: the command that reads them is named.
crosshead info $DATA/formats/tied_v2.bin
