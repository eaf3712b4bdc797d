#!/bin/bash
# Keys and values apart.
crosshead info $DATA/../../configs/papers/mfa-keys-compressed.json
crosshead info $DATA/../../configs/papers/mfa-values-2-groups.json
