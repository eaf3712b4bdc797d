#!/bin/bash
printf '{"model_type": "crosshead", "hiden_size": 4}' >c.json
crosshead info c.json --json
