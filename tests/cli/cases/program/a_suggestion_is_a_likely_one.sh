#!/bin/bash
# A suggestion is a likely one.
for w in flash version MHA; do crosshead $w 2>&1 | grep -c 'did you mean'; done
true
