#!/bin/bash
crosshead --help
