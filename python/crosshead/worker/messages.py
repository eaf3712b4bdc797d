# mypy: ignore-errors
"""What the worker says: lines of JSON on standard output, for the program that started it."""

import ctypes
import datetime
import json
import os
import signal
import sys

_lines = sys.stdout


def keep_lines_apart():
    """Whatever else writes to standard output goes to standard error from here on."""
    global _lines
    _lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)


def output():
    """Returns the file that lines of JSON go to."""
    return _lines


def end_with_parent(number=signal.SIGTERM):
    """This signal comes when the program ends that started the worker (Linux)."""
    try:
        ctypes.CDLL(None).prctl(1, number)
    except (OSError, AttributeError):
        pass


class Refused(Exception):
    """An error that the user reads as one sentence. kind: "config", "io", "memory" or "numeric"."""

    def __init__(self, kind, sentence):
        super().__init__(sentence)
        self.kind = kind


def say(event, **members):
    """Writes a line of JSON, for the program that started the worker. Of several processes only the first reports progress."""
    if event != "error" and os.environ.get("RANK", "0") != "0":
        return
    print(json.dumps({"event": event, **members}), file=_lines, flush=True)


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
