#!/bin/bash
crosshead bench
