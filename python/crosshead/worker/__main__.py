# mypy: ignore-errors
"""python -m crosshead.worker RUN"""

import os
import signal
import sys
import traceback

USAGE = "usage: python -m crosshead.worker RUN    (a directory that `crosshead train --engine pytorch --out RUN` prepared)"


def main():
    measures = len(sys.argv) == 3 and sys.argv[1] == "measure"
    if not measures and (len(sys.argv) != 2 or sys.argv[1].startswith("-")):
        print(USAGE, file=sys.stdout if sys.argv[1:] in (["-h"], ["--help"]) else sys.stderr)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    # `python -m` also looks for modules in the current directory, whose files may have the names of packages that PyTorch imports.
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != os.getcwd()]
    from crosshead.worker.messages import Refused, end_with_parent, first_line, keep_lines_apart, say

    keep_lines_apart()
    if os.environ.get("RANK", "0") != "0" and "CROSSHEAD_RANKS" in os.environ:
        end_with_parent(signal.SIGKILL)
    elif not sys.stdin.isatty():
        end_with_parent()

    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(cache, "crosshead", "inductor"))

    try:
        import torch
        import transformers  # noqa: F401
    except ImportError as error:
        say("error", kind="config", message=f"{sys.executable} has no {error.name}; name a Python that has PyTorch "
                                            "and transformers with --python")
        return 1
    from crosshead.errors import Error
    from crosshead.worker.run import train

    try:
        if measures:
            from crosshead.worker.measure import measure

            sys.dont_write_bytecode = True
            return measure(sys.argv[2])
        return train(sys.argv[1])
    except Refused as refused:
        say("error", kind=refused.kind, message=str(refused))
    except Error as error:
        say("error", kind="io", message=str(error))
    except RuntimeError as error:
        traceback.print_exc()
        say("error", kind="io", message=f"PyTorch failed: {first_line(error)}")
    if torch.distributed.is_initialized():
        os._exit(1)  # the interpreter's end would wait for sums that other processes no longer take part in
    return 1


if __name__ == "__main__":
    sys.exit(main())
