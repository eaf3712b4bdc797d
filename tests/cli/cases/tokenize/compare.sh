#!/bin/bash
(
  yes 'a b c d e f' | head -c 900
  printf 'caf\351 a'
) >t
crosshead compare --data t --out c
echo $?
ls -A
