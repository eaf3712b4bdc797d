#!/bin/bash
crosshead ''
