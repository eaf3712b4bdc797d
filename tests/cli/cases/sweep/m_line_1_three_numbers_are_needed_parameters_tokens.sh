#!/bin/bash
echo 1,2 >m
crosshead fit m --law size
