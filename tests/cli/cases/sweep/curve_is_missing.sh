#!/bin/bash
crosshead fit
