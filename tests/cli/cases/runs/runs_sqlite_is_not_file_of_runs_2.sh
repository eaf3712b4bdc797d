#!/bin/bash
head -c 100 /dev/zero >runs.sqlite
crosshead runs
