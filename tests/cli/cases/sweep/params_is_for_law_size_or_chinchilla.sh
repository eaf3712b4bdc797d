#!/bin/bash
crosshead fit m --params 1M --budget 1M
