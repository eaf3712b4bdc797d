#!/bin/bash
crosshead runs
