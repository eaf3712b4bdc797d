#!/bin/bash
crosshead generate model --gpus 1 --prompt x
