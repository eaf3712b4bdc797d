#!/bin/bash
crosshead forward missing --tokens 1,2
