#!/bin/bash
printf 'x' >t
crosshead compare --data t --dry-run
