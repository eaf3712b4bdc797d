#!/bin/bash
: >t
crosshead tokenize $DATA/text/bytelevel.json t
