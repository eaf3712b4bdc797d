#!/bin/bash
crosshead forward
