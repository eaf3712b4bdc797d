#!/bin/bash
crosshead --version
