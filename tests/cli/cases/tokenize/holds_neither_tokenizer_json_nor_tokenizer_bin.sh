#!/bin/bash
crosshead tokenize . -
