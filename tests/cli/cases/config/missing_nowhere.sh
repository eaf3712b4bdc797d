#!/bin/bash
crosshead config mla --like nowhere
