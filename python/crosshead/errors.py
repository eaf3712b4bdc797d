"""Exceptions for the library's status codes and messages.

>>> issubclass(ArgumentError, ValueError) and issubclass(ArgumentError, Error)
True
"""

from typing import Any, Dict, Type

from crosshead._native import ffi, text


class Error(Exception):
    """Base class. The message says what is wrong and what would be right. setting: the first keyword in it, or ""."""

    def __init__(self, message: str = "", setting: str = ""):
        super().__init__(message)
        self.setting = setting


class ArgumentError(Error, ValueError):
    """An argument is invalid."""


class ReadWriteError(Error, OSError):
    """Reading or writing failed."""


class FormatError(Error, ValueError):
    """A file is truncated, damaged or in another format."""


class ConfigError(Error, ValueError):
    """A configuration contradicts itself or is not supported."""


class OutOfMemory(Error, MemoryError):
    """An allocation failed."""


class NumericError(Error, ArithmeticError):
    """A loss, gradient or weight is not finite."""


class Interrupted(Error):
    """A callback stopped the work. Finished parts are saved."""


class FullError(Error):
    """A cache or a context has no room for more tokens."""


class ClosedError(Error, ValueError):
    """A model or session was used after it was closed."""


class BusyError(Error, RuntimeError):
    """A session was used by two threads at once, or by its own callback."""


class ForkedError(Error, RuntimeError):
    """The process was forked after its parent had computed, so it has no worker threads."""


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
    """Returns an empty ch_error."""
    return ffi.new("ch_error *")


def check(status: int, error: Any) -> None:
    """Raises the exception for a status other than CH_OK."""
    if status:
        raise _BY_STATUS.get(status, Error)(text(error.message) or "", text(error.setting) or "")
