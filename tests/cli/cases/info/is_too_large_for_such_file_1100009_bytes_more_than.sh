#!/bin/bash
(
  printf '{"a": "'
  head -c 1100000 /dev/zero | tr '\0' x
  printf '"}'
) >c.json
crosshead info c.json
