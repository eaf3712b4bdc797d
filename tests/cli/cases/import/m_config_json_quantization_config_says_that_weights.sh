#!/bin/bash
cp -r $DATA/reference/gpt_oss_mxfp4 m
chmod -R u+w m
sed -i 's/mxfp4/gptq/' m/config.json
crosshead info m
