#!/bin/bash
# A configuration may begin with a byte order mark, as texts may.
(
  printf '\357\273\277'
  cat $DATA/TinyStories-656K/config.json
) >c.json
crosshead info c.json
