#!/bin/bash
crosshead generate
