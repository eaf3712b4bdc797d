#!/bin/bash
crosshead info
