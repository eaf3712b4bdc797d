#!/bin/bash
echo hello >t.json
echo a | crosshead tokenize t.json -
