#!/bin/bash
crosshead info $DATA/reference/deepseek_v2 --cache-dtype k=q8_0
