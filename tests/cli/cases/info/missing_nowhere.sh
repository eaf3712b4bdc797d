#!/bin/bash
crosshead info --table $DATA/reference/qwen3 nowhere
