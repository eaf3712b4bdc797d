#!/bin/bash
crosshead manual
