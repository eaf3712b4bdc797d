#!/bin/bash
head -c 100000 /dev/urandom >c.json
crosshead info c.json
