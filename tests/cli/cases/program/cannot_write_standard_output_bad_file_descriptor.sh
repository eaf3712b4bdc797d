#!/bin/bash
crosshead --version >&-
