#!/bin/bash
crosshead help nothing
