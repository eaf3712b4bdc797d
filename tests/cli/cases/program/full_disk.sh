#!/bin/bash
# Standard output: a full disk and a closed descriptor are failures, a reader that leaves early is
# not.
crosshead --version >/dev/full
