"""Errors: what the library's status codes and sentences become.

>>> issubclass(ArgumentError, ValueError) and issubclass(ArgumentError, Error)
True
"""

from typing import Any, Dict, Type

from crosshead._native import ffi, text


class Error(Exception):
    """What went wrong, in one sentence that says what would be right. setting: the first keyword that it names, or ""."""

    def __init__(self, message: str = "", setting: str = ""):
        super().__init__(message)
        self.setting = setting


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


def check(status: int, error: Any) -> None:
    """Raises what a status other than CH_OK stands for."""
    if status:
        raise _BY_STATUS.get(status, Error)(text(error.message) or "", text(error.setting) or "")
