#!/bin/bash
crosshead compare --data $DATA/../../LICENSE --dry-run --force
