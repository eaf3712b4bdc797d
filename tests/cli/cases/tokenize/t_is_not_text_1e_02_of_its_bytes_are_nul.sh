#!/bin/bash
head -c 5000 /dev/zero >t
crosshead tokenizer train --data t
