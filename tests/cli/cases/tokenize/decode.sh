#!/bin/bash
printf 'one\n\ntwo \xff\xc3\xa9\n' >t
crosshead tokenize $DATA/text/bytelevel.json t | crosshead tokenize $DATA/text/bytelevel.json - --decode |
  cmp - t
