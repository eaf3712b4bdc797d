#!/bin/bash
# Interrupting ends the text and still prints the figures (a fast machine may be done before).
crosshead generate $DATA/TinyStories-656K --prompt "The dog" --max-tokens 0 --ignore-eos >text 2>figures &
until [ -s text ]; do
  :
done
kill -TERM $! 2>/dev/null
wait $!
status=$?
[ $status = 0 ] || [ $status = 143 ] || echo "status $status"
grep -qE 'crosshead generate: interrupted after [0-9]+ tokens?$|^stopped: the context of 512 tokens is full$' figures
grep '^decode' figures
