#!/bin/bash
crosshead runs show
