#!/bin/bash
crosshead plan --context 64 --device l4
