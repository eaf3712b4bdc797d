#!/bin/bash
# Nothing waits for a terminal.
script \
    -qec "timeout 20 crosshead generate $DATA/TinyStories-656K --max-tokens 2 >text 2>/dev/null" /dev/null >/dev/null
echo $?
test -s text && echo written
