#!/bin/bash
crosshead runs add .
