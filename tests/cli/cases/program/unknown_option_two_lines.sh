#!/bin/bash
crosshead $'--two\nlines'
