#!/bin/bash
crosshead config mla,mha
