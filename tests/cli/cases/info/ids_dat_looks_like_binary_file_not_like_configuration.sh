#!/bin/bash
head -c 4096 /dev/zero | tr '\0' '\1' >ids.dat
crosshead info ids.dat
