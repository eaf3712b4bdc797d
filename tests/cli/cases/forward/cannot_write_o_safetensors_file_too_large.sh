#!/bin/bash
# A disk that fills up while the file is written leaves nothing behind.
(
  ulimit -f 8
  crosshead forward $DATA/reference/llama_gqa --tokens 1,2,3 --out o.safetensors --grads
)
status=$?
[ -z "$(ls)" ] && exit $status
