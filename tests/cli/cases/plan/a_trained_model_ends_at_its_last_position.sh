#!/bin/bash
# A trained model ends at its last position; one that is still to be trained does not.
crosshead plan $DATA/reference/llama_gqa mha --context 1M --device l4
