#!/bin/bash
crosshead import $DATA/formats/tied_v0.bin
