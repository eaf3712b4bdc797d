#!/bin/bash
printf '{"text": "a"}\nplain\n' >d
crosshead compare --data d --mechanisms mha --out o
