#!/bin/bash
crosshead train nowhere.json --data $DATA/../../data/tinyshakespeare.txt --out m
