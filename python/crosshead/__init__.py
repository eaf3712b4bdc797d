"""Crosshead: compare attention mechanisms by quality, KV cache and speed.

    import crosshead
    with crosshead.Model("runs/compare/mla") as model:
        for piece in crosshead.generate(model, "Once upon a time", max_tokens=50):
            print(piece.text, end="")

docs/python.md of the project explains the package.
"""

import os as _os

if not _os.path.exists(_os.path.join(_os.path.dirname(__file__), "_cdef.py")):
    raise ImportError(
        "crosshead: this is the package's source, without the files that its build adds; install it with `pip install ./python`"
    )

from crosshead import structs
from crosshead._native import version as __version__
from crosshead.comparing import Behind, Choice, Comparison, Verdict, compare, config, foresee
from crosshead.errors import (
    ArgumentError,
    BusyError,
    ClosedError,
    ConfigError,
    Error,
    ForkedError,
    FormatError,
    FullError,
    Interrupted,
    NumericError,
    OutOfMemory,
    ReadWriteError,
)
from crosshead.generation import Generation, Piece, Text, generate
from crosshead.making import compress, evaluate, export_model, import_model, plan, quantize, train
from crosshead.model import Model
from crosshead.results import Result
from crosshead.scoring import Score, score
from crosshead.session import Session

__all__ = [
    "ArgumentError",
    "Behind",
    "BusyError",
    "Choice",
    "ClosedError",
    "Comparison",
    "ConfigError",
    "Error",
    "ForkedError",
    "FormatError",
    "FullError",
    "Generation",
    "Interrupted",
    "Model",
    "NumericError",
    "OutOfMemory",
    "Piece",
    "ReadWriteError",
    "Result",
    "Score",
    "Session",
    "Text",
    "Verdict",
    "__version__",
    "compare",
    "compress",
    "config",
    "evaluate",
    "export_model",
    "foresee",
    "generate",
    "import_model",
    "plan",
    "quantize",
    "score",
    "structs",
    "train",
]
