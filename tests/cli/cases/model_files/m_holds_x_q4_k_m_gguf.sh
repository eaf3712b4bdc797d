#!/bin/bash
mkdir m
touch m/x.Q4_K_M.gguf
crosshead forward m --tokens 1
