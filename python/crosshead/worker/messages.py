# mypy: ignore-errors
"""The worker's messages: lines of JSON on standard output, for the program that started it."""

import ctypes
import datetime
import json
import os
import signal
import sys

_lines = sys.stdout


def keep_lines_apart():
    """Redirects everything else that is written to standard output to standard error from here on."""
    global _lines
    _lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)


def output():
    """Returns the file that lines of JSON go to."""
    return _lines


def end_with_parent(number=signal.SIGTERM):
    """Makes Linux send this signal to the worker when the program that started it ends."""
    try:
        ctypes.CDLL(None).prctl(1, number)
    except (OSError, AttributeError):
        pass


class Refused(Exception):
    """An error that is reported to the user as one sentence. kind: "config", "io", "memory" or "numeric"."""

    def __init__(self, kind, sentence):
        super().__init__(sentence)
        self.kind = kind


def first_line(error):
    """Returns the first line of an error's message, without a full stop or colon at its end."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".:")


def say(event, **members):
    """Writes a line of JSON for the program that started the worker. Processes other than the first only report errors."""
    if event != "error" and os.environ.get("RANK", "0") != "0":
        return
    print(json.dumps({"event": event, **members}), file=_lines, flush=True)


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
