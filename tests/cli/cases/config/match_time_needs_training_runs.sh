#!/bin/bash
crosshead config mla --match time
