#!/bin/bash
crosshead plan mna --params 1M --context 64 --device l4
