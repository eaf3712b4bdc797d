"""What the worker says: lines of JSON on standard output, for the program that started it."""

import datetime
import json


class Refused(Exception):
    """What a user is told in one sentence. kind: "config", "io", "memory" or "numeric"."""

    def __init__(self, kind, sentence):
        super().__init__(sentence)
        self.kind = kind


def say(event, **members):
    """A line of JSON on standard output, for the program that started the worker."""
    print(json.dumps({"event": event, **members}), flush=True)


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
