#!/bin/bash
crosshead export $DATA/reference/granite --format transformers --out g
