#!/bin/bash
printf 'tokens,loss\n1,2"3\n' >t
crosshead fit t
