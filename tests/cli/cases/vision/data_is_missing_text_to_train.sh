#!/bin/bash
crosshead compare --mechanisms mha
