#!/bin/bash
crosshead import $DATA/formats/llama2c.safetensors --out model
