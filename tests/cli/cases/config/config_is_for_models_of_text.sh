#!/bin/bash
crosshead config mla --like $DATA/../../configs/tiny-vit.json
