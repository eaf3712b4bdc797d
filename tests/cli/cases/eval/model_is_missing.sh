#!/bin/bash
crosshead eval --text t
