"""The two libraries, loaded from the package's folder, or from the system where the package has none."""

import glob
import os
from typing import Any, Optional

# GCC's OpenMP lets threads that wait spin. Where two OpenMP runtimes share a process (ours and PyTorch's), the spinning threads
# of one take the processor from the other. This is what the program `crosshead` sets for itself. A runtime reads it when it is
# loaded, so it is set before; a value that is there stays.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")

try:
    import numpy  # noqa: F401

    from crosshead import _cdef
except ImportError as error:
    raise ImportError(f"crosshead needs cffi and NumPy ({error}); install them with `pip install cffi numpy`") from error

ffi: Any = _cdef.ffi


def _load(name: str) -> Any:
    found = glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), f"lib{name}.so.*"))
    file = f"lib{name}.so.{_cdef.soname}"
    try:
        return ffi.dlopen(found[0] if len(found) == 1 else file, ffi.RTLD_NOW)
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
running = _load("crosshead")
#: libcrosshead-train, which makes models.
making = _load("crosshead-train")


def text(pointer: Any) -> Optional[str]:
    """A string of the library's; None for NULL."""
    return str(ffi.string(pointer).decode("utf-8", "replace")) if pointer else None


def take(pointer: Any) -> str:
    """A string that the library hands over; it is released."""
    try:
        return str(ffi.string(pointer).decode("utf-8", "replace"))
    finally:
        running.ch_free(pointer)


#: The version of the libraries.
version = text(running.ch_version()) or ""
