#!/bin/bash
crosshead help
