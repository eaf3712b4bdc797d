#!/bin/bash
crosshead info .
