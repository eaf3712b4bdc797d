#!/bin/bash
crosshead import $DATA/formats/split-00002-of-00002.gguf --out m
