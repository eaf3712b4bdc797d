#!/bin/bash
crosshead eval $DATA/TinyStories-656K --task ruler:qa@512 --task-file $DATA/tasks/squad.json --limit 2
