#!/bin/bash
echo 'a a a' >t
echo 'b b b' >u
crosshead tokenizer train --data t,u --vocab-size 10k && test -s tokenizer.json
