#!/bin/bash
crosshead completion bash zsh
