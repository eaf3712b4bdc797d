#!/bin/bash
# A prompt from a pipe, or from standard input when it is asked for; none from /dev/null; an empty
# one is a mistake.
m=$DATA/TinyStories-656K
g() {
  crosshead generate $m --temperature 0 --max-tokens 3 --echo "$@" 2>/dev/null
}
g --prompt "The dog" >asked
echo "The dog" | g | cmp - asked && echo "The dog" | g --prompt - | cmp - asked && echo "The dog" >file &&
  g <file | cmp - asked && g --prompt "" >none && g </dev/null | cmp - none && echo same
