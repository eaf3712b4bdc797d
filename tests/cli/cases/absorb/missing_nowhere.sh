#!/bin/bash
crosshead absorb nowhere --out plain
