#!/bin/bash
# crosshead eval: perplexities, JSON, and what wrong use gets.
printf 'Once upon a time, there was a little girl.\n<|endoftext|>\nA cat sat on a mat.\n' >t
crosshead eval $DATA/TinyStories-656K --text t
