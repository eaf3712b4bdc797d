#!/bin/bash
crosshead config
