#!/bin/bash
crosshead import nowhere.gguf --out model
