#!/bin/bash
crosshead fit m --law chinchilla --params 1M
