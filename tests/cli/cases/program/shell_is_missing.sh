#!/bin/bash
crosshead completion
