#!/bin/bash
crosshead compress nowhere --method mea --component-heads 2 --out small
