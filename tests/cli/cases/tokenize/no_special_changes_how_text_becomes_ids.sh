#!/bin/bash
crosshead tokenize $DATA/text/bytelevel.json - --decode --no-special
