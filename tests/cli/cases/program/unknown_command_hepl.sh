#!/bin/bash
crosshead hepl
