#!/bin/bash
crosshead plan mha --params 1M --context 64 --device l4 --ranks 2 --json
