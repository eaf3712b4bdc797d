#!/bin/bash
: >c.json
crosshead info c.json
