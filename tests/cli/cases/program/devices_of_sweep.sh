#!/bin/bash
crosshead sweep --devices cuda:0
