#!/bin/bash
crosshead config mla --match cache
