#!/bin/bash
crosshead help help too
