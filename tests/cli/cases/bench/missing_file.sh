#!/bin/bash
crosshead bench missing
