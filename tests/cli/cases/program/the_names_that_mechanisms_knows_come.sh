#!/bin/bash
# The names that --mechanisms knows come from the mechanisms themselves.
crosshead compare --help
