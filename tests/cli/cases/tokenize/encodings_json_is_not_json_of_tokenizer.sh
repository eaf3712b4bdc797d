#!/bin/bash
crosshead tokenize $DATA/text/encodings.json -
