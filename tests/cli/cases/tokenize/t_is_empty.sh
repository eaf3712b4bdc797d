#!/bin/bash
: >t
crosshead tokenizer train --data t
