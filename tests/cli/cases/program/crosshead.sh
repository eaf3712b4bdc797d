#!/bin/bash
crosshead --version <&-
