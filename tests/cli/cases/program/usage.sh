#!/bin/bash
crosshead -h
