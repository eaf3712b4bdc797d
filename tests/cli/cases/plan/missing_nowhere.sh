#!/bin/bash
crosshead plan ./nowhere --context 64 --device l4
