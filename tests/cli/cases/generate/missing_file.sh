#!/bin/bash
crosshead generate $DATA/TinyStories-656K --prompt x --tokenizer missing
