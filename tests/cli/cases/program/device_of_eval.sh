#!/bin/bash
crosshead eval model --device cuda:0 --data text.txt
