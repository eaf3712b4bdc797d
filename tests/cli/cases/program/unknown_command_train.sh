#!/bin/bash
crosshead Train
