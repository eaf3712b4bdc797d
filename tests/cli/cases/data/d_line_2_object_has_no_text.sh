#!/bin/bash
printf '{"text": "a"}\n{"body": "b"}\n' >d
crosshead eval $DATA/TinyStories-656K --text d
