#!/bin/bash
crosshead sweep
