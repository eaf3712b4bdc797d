#!/bin/bash
crosshead generate missing --prompt x
