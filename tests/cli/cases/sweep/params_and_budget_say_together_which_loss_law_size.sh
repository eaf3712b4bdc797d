#!/bin/bash
crosshead fit m --law size --params 1M
