#!/bin/bash
echo 'a a a' >t
crosshead tokenizer train --data t,missing
