#!/bin/bash
crosshead info --table $(yes c.json | head -4096)
