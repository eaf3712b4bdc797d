#!/bin/bash
crosshead compare --data $DATA/../../LICENSE --mechanisms mla,MLA
