#!/bin/bash
mkdir m
printf '<html><body>Sign in</body></html>' >m/config.json
crosshead forward m --tokens 1
