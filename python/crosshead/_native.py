"""Loads the two libraries from the package's folder, or from the system if the package has none."""

import glob
import os
import re
from typing import Any, Optional

# GCC's OpenMP lets waiting threads spin. If two OpenMP runtimes share a process (ours and PyTorch's), the spinning threads of one
# slow down the other. The program `crosshead` sets the same value for itself. A runtime reads the variable when it is loaded, so
# it must be set earlier. An existing value is not changed.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")

try:
    import numpy  # noqa: F401

    from crosshead import _cdef
except ImportError as error:
    raise ImportError(f"crosshead needs cffi and NumPy ({error}); install them with `pip install cffi numpy`") from error

ffi: Any = _cdef.ffi


class _Library:
    """A library whose functions are looked up once. In a process that was forked after its parent had computed, functions that
    compute raise ForkedError: OpenMP would wait for threads that fork() does not copy."""

    _used = False
    _forked = False

    def __init__(self, library: Any, computes: str) -> None:
        self._library, self._computes = library, re.compile(computes)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._library, name)
        if self._computes.match(name):
            if _Library._forked:
                from crosshead.errors import ForkedError

                raise ForkedError(
                    "this process was forked after its parent had computed with Crosshead, whose threads fork() does not copy; start it with "
                    'multiprocessing.get_context("spawn"), or fork before the first call'
                )
            _Library._used = True
        setattr(self, name, value)
        return value

    def _begin_child(self) -> None:
        for name in [name for name in vars(self) if name.startswith("ch_")]:
            delattr(self, name)
        _Library._forked = _Library._used


def _load(name: str, computes: str) -> Any:
    found = glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), f"lib{name}.so.*"))
    file = f"lib{name}.so.{_cdef.soname}"
    try:
        return _Library(ffi.dlopen(found[0] if len(found) == 1 else file, ffi.RTLD_NOW), computes)
    except OSError as error:
        if f"{file}: cannot open" in str(error):
            raise ImportError(
                f"neither the package nor the system has {file}; install it with `pip install ./python` in Crosshead's folder"
            ) from error
        raise ImportError(
            f"lib{name} needs a system library that is not installed ({error}); on Debian install libjansson4, libpcre2-8-0, libonig5, "
            "libutf8proc2, libsqlite3-0, libdnnl3, liblapacke, libopenblas0-pthread, zlib1g, libbz2-1.0, libcsv3 and libgomp1, or run "
            "`scripts/deps.sh build` in Crosshead's folder"
        ) from error


#: libcrosshead, which runs models. It is loaded first: libcrosshead-train needs it.
running = _load("crosshead", "ch_(model_open|session_(create|feed|step|fork|copy)|generate)")
#: libcrosshead-train, which makes models.
making = _load("crosshead-train", "ch_(?!.*_(defaults|free|name|json|table|verdict)$)")

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=running._begin_child)
    os.register_at_fork(after_in_child=making._begin_child)


def text(pointer: Any) -> Optional[str]:
    """Returns a C string as str; None for NULL."""
    return str(ffi.string(pointer).decode("utf-8", "replace")) if pointer else None


def take(pointer: Any) -> str:
    """Returns a string that the library allocated, and frees it."""
    try:
        return str(ffi.string(pointer).decode("utf-8", "replace"))
    finally:
        running.ch_free(pointer)


#: The version of the libraries.
version = text(running.ch_version()) or ""
