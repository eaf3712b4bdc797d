#!/bin/bash
printf '{"prompt": "x", "seed": 3}\n' >p.jsonl
crosshead generate $DATA/TinyStories-656K --prompts p.jsonl
