#!/bin/bash
printf 'one\n\ntwo' >t
crosshead tokenize $DATA/text/spm.bin t --whole --add-special | tee ids |
  crosshead tokenize $DATA/text/spm.bin - --whole --decode --skip-special | cmp - t
cat ids
