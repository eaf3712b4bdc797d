#!/bin/bash
printf '1,5\n2,four\n' >c.csv
crosshead fit c.csv
