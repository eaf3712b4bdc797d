#!/bin/bash
crosshead runs compare 1 2
