#!/bin/bash
mkdir -p m/snapshots m/blobs
crosshead forward m --tokens 1
