#!/bin/bash
mkdir m
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12\n' >m/config.json
crosshead info m
