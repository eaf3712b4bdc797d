#!/bin/bash
crosshead quantize $DATA/reference/gpt_oss_mxfp4 --type q8_0 --out q && crosshead forward q --tokens 5,6,7
