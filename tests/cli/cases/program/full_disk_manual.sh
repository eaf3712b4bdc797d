#!/bin/bash
crosshead manual >/dev/full
