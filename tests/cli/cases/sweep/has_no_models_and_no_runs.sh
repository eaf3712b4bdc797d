#!/bin/bash
printf '{"models": 3}' >c.json
crosshead fit c.json
