#!/bin/bash
printf 'GGUF' >model.gguf && crosshead import model.gguf --out model
