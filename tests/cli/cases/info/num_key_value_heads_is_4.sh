#!/bin/bash
sed 's/"num_key_value_heads": 2/"num_key_value_heads": 4/' $DATA/reference/llama_gqa/config.json >c.json
crosshead info c.json
