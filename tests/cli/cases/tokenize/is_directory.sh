#!/bin/bash
crosshead tokenize $DATA/text/bytelevel.json .
