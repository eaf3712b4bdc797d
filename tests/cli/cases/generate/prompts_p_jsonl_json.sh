#!/bin/bash
printf '{"prompt": "One\\nday"}\n"The moon"\n' >p.jsonl
crosshead generate $DATA/TinyStories-656K --prompts p.jsonl --max-tokens 2 --json
