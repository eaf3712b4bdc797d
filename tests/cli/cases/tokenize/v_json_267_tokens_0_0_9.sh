#!/bin/bash
yes 'the cat and the dog' | head -n 50 >t
crosshead tokenizer train --data t --vocab-size 267 --out v.json
printf '<|endoftext|> the\n' | crosshead tokenize v.json - && test -s v.json
