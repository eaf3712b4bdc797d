#!/bin/bash
printf '\200\2\212\12aaaaaaaa' >x.bin
crosshead import x.bin --out m
