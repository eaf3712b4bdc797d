#!/bin/bash
crosshead 2>usage
[ $? -eq 2 ] && cat usage
