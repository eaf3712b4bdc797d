#!/bin/bash
crosshead config mla --params 1k
