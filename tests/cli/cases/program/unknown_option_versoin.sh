#!/bin/bash
crosshead --versoin
