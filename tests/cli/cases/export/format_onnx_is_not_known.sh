#!/bin/bash
crosshead export $DATA/TinyStories-656K --format onnx --out kept
