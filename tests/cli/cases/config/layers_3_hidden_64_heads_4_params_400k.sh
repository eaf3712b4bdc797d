#!/bin/bash
crosshead config gqa:2 --layers 3 --hidden 64 --heads 4 --params 400k --vocab 512 |
  grep -E 'num_hidden|"hidden_size|num_attention_heads'
