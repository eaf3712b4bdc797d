#!/bin/bash
set -o pipefail
crosshead manual | true
