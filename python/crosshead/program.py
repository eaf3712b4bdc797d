"""The bundled program `crosshead`: the console script, and `python -m crosshead`."""

import os
import sys


def main() -> None:
    """Replaces this process with the program. With `--engine pytorch`, the program uses this Python."""
    folder = os.path.dirname(os.path.abspath(__file__))
    os.environ.setdefault("CROSSHEAD_PYTHON", sys.executable)
    program = os.path.join(folder, "bin", "crosshead")
    try:
        os.execv(program, ["crosshead", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"crosshead: {program} cannot be started ({error}); install the package again")
