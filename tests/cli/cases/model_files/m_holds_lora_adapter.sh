#!/bin/bash
mkdir m
touch m/adapter_config.json m/adapter_model.safetensors
crosshead forward m --tokens 1
