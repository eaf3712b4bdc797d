#!/bin/bash
# A full disk: the rates are printed too, so only the last line is the error.
crosshead generate $DATA/TinyStories-656K --prompt x --max-tokens 5 >/dev/full 2>err
status=$?
tail -n 1 err >&2
exit $status
