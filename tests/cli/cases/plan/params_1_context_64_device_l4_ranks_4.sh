#!/bin/bash
crosshead plan egmla mha --params 1M --context 64 --device l4 --ranks 4 --compute bf16
