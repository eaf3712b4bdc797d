#!/bin/bash
printf 'tokens,loss\n1,2\n"1,000",5\n' >t
crosshead fit t
