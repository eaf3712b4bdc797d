#!/bin/bash
# One argument too many: the option that it belongs to.
crosshead compare my.txt
