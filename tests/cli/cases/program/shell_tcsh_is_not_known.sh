#!/bin/bash
crosshead completion tcsh
