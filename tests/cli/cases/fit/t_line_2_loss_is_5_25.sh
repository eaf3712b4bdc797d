#!/bin/bash
printf 'tokens;loss\n1000;5,25\n' >t
crosshead fit t
