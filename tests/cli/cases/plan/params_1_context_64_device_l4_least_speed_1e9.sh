#!/bin/bash
crosshead plan mqa gqa:3 --params 1M --context 64 --device l4 --least-speed 1e9
