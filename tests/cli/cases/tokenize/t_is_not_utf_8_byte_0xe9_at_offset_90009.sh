#!/bin/bash
# One byte is enough, in every command that reads text. The offset counts a byte order mark.
(
  printf '\357\273\277a b'
  yes 'a b c d e f' | head -c 90000
  printf 'caf\351 a'
) >t
crosshead tokenizer train --data t
