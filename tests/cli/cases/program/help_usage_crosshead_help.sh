#!/bin/bash
crosshead help help
