#!/bin/bash
crosshead forward $DATA/reference/qwen3 --tokens 1,2,3 --json
