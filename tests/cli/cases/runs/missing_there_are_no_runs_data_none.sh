#!/bin/bash
crosshead runs flash --runs $DATA/none
