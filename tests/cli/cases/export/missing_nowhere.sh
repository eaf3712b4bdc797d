#!/bin/bash
crosshead export nowhere --format gguf --out model.gguf
