"""python -m crosshead: the program."""

from crosshead.program import main

main()
