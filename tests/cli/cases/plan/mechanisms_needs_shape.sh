#!/bin/bash
crosshead plan mla --context 64 --device l4
