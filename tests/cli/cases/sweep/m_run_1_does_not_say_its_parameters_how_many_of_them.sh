#!/bin/bash
echo '{"models": [{"parameters": 5, "tokens_trained": 7, "validation_loss": 9}]}' >m
crosshead fit m --law size
