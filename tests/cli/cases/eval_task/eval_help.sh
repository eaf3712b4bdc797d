#!/bin/bash
crosshead eval --help
