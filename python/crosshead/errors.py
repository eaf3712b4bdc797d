"""Errors: what the library's status codes and sentences become.

>>> issubclass(ArgumentError, ValueError) and issubclass(ArgumentError, Error)
True
"""

import functools
import re
from typing import Any, Dict, FrozenSet, Type

from crosshead._native import ffi, text


class Error(Exception):
    """What went wrong, in one sentence that says what would be right."""


class ArgumentError(Error, ValueError):
    """Something impossible was passed."""


class ReadWriteError(Error, OSError):
    """The operating system refused to read or write."""


class FormatError(Error, ValueError):
    """A file is truncated, damaged or in another format."""


class ConfigError(Error, ValueError):
    """A configuration contradicts itself or is not supported."""


class OutOfMemory(Error, MemoryError):
    """An allocation failed."""


class NumericError(Error, ArithmeticError):
    """A loss, gradient or weight is not finite."""


class Interrupted(Error):
    """A callback asked to stop; what is finished is kept."""


class FullError(Error):
    """A cache or a context has no room for more tokens."""


class ClosedError(Error, ValueError):
    """A model or session is used after it was closed."""


class BusyError(Error, RuntimeError):
    """A session is used by two threads, or by a callback of its own work, at the same time."""


class ForkedError(Error, RuntimeError):
    """A process that was forked after its parent had computed: it has no threads to compute with."""


_BY_STATUS: Dict[int, Type[Error]] = {
    1: ArgumentError,
    2: ReadWriteError,
    3: FormatError,
    4: ConfigError,
    5: OutOfMemory,
    6: NumericError,
    7: Interrupted,
    8: FullError,
}


def new_error() -> Any:
    """A place for the library's sentence."""
    return ffi.new("ch_error *")


# Options of the program whose keyword has another name.
_KEYWORDS = {
    "params": "parameters",
    "seq": "sequence",
    "compute": "type",
    "dtype": "weights",
    "device": "devices",
    "length": "lengths",
    "only": "part",
    "fewshot": "examples",
    "fewshot_file": "example_file",
    "task_file": "items",
}


@functools.lru_cache(None)
def _settings() -> FrozenSet[str]:
    """The names of all settings."""
    structs = [ffi.typeof(name) for name in ffi.list_types()[0] if name.endswith(("_settings", "_options"))]
    return frozenset(field for struct in structs for field, _ in struct.fields)


def in_python(sentence: str) -> str:
    """The sentence with keywords for options of the program: `sequence` for `--seq`."""

    def keyword(option: "re.Match[str]") -> str:
        name = option[1].replace("-", "_")
        name = _KEYWORDS.get(name, name)
        return name if name in _settings() else option[0]

    return re.sub(r"(?<![\w-])--([a-z][a-z-]*[a-z0-9])", keyword, sentence)


def check(status: int, error: Any) -> None:
    """Raises what a status other than CH_OK stands for."""
    if status:
        raise _BY_STATUS.get(status, Error)(in_python(text(error.message) or ""))
