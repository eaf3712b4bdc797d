#!/bin/bash
echo tokens,loss >m
crosshead fit m --law size
