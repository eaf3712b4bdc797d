#!/bin/bash
mkdir m
echo '{"model_type": "mamba"}' >m/config.json
crosshead compress m --method mea --component-heads 2 --out small
