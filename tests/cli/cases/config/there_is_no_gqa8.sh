#!/bin/bash
crosshead config gqa8
