#!/bin/bash
crosshead info nowhere
