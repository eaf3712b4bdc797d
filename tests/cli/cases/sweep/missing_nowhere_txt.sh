#!/bin/bash
crosshead sweep --data nowhere.txt
