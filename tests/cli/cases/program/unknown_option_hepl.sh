#!/bin/bash
crosshead help --hepl
