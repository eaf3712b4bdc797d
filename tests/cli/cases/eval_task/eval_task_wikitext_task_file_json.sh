#!/bin/bash
crosshead eval $DATA/TinyStories-656K --task wikitext --task-file $DATA/tasks/wikitext.txt --json
