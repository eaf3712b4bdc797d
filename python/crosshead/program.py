"""The program `crosshead`, which the package brings along: the console script, and `python -m crosshead`."""

import os
import sys


def main() -> None:
    """Becomes the program. Its runs with `--engine pytorch` use this Python, which finds the package as it did here."""
    folder = os.path.dirname(os.path.abspath(__file__))
    os.environ.setdefault("CROSSHEAD_PYTHON", sys.executable)
    program = os.path.join(folder, "bin", "crosshead")
    try:
        os.execv(program, ["crosshead", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"crosshead: {program} cannot be started ({error}); install the package again")
