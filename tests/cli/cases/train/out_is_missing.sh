#!/bin/bash
crosshead train
