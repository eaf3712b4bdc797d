#!/bin/bash
printf '0,1000,5.2\n1,2000,4.2\n' >t
crosshead fit t
