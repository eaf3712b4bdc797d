#!/bin/bash
crosshead frobnicate
