#!/bin/bash
printf '\377\376{\0' >t.json
echo a | crosshead tokenize t.json -
