#!/bin/bash
crosshead tokenizer train
