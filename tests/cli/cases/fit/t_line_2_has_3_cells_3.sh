#!/bin/bash
printf 'wall time tokens loss\n1 1000 5.2\n' >t
crosshead fit t
