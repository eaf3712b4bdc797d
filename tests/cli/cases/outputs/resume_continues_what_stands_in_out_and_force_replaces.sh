#!/bin/bash
crosshead train --out m --resume --force
