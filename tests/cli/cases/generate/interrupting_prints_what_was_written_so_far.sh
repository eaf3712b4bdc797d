#!/bin/bash
# Interrupting prints what was written so far, and says that it is not all.
crosshead generate $DATA/TinyStories-656K --prompt "The dog" --samples 20000 --max-tokens 0 \
    --ignore-eos >texts 2>said &
sleep 1
kill -INT $! 2>/dev/null
kill -TERM $!
wait $!
echo status $?
grep -c '^==>' texts
cat said
