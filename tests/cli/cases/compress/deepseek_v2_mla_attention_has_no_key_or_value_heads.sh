#!/bin/bash
crosshead compress $DATA/reference/deepseek_v2 --method mea --component-heads 2 --out small
