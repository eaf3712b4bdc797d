#!/bin/bash
# A byte order mark is named; a file that ends in .json is read as JSON.
(
  printf '\357\273\277'
  cat $DATA/text/bytelevel.json
) >t.json
echo a | crosshead tokenize t.json -
