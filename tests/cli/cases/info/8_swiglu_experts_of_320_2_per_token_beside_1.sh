#!/bin/bash
crosshead info $DATA/../../configs/small-moe.json
