#!/bin/bash
crosshead train --out m
