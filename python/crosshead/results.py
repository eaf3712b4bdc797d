"""Results: the library's JSON as dataclasses."""

import json
from dataclasses import make_dataclass
from typing import Any, Dict, Tuple

_made: Dict[Tuple[str, Tuple[str, ...]], type] = {}


class Result:
    """The result of a call. Members have the names of the program's --json.

    >>> result = parse("EvaluateResult", '{"loss": 2.5, "tokens": 10, "acc,none": 1}')
    >>> result.loss, result["acc,none"], result.to_dict()["tokens"]
    (2.5, 1, 10)
    """

    _names: Dict[str, str] = {}

    def __getitem__(self, name: str) -> Any:
        return getattr(self, self._names[name])

    def to_dict(self) -> Dict[str, Any]:
        """Returns everything as dictionaries with the names of the JSON."""
        return {name: _plain(getattr(self, member)) for name, member in self._names.items()}

    def to_pandas(self) -> Any:
        """Returns a pandas DataFrame with a row for each entry of the list of results, or one row. Needs pandas."""
        try:
            import pandas  # type: ignore[import-untyped,unused-ignore]
        except ImportError as error:
            raise ImportError("to_pandas needs pandas; install it with `pip install pandas`") from error
        values = self.to_dict()
        for name in ("models", "mechanisms", "results", "runs", "candidates"):
            rows = values.get(name)
            if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
                return pandas.DataFrame(rows)
        return pandas.json_normalize(values)


def _plain(value: Any) -> Any:
    if isinstance(value, Result):
        return value.to_dict()
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value


def _member(name: str) -> str:
    made = "".join(c if c.isalnum() else "_" for c in name)
    if made[:1].isdigit() or made in _RESERVED:
        made = "_" + made
    return made


_RESERVED = {"to_dict", "to_pandas", "class", "from", "import", "global", "lambda", "for", "in", "is", "not", "and", "or", "if", ""}


def build(title: str, value: Any) -> Any:
    """Converts JSON objects to dataclasses with this title. Lists and values stay."""
    if isinstance(value, list):
        return [build(title, part) for part in value]
    if not isinstance(value, dict):
        return value
    key = (title, tuple(value))
    kind = _made.get(key)
    members = {name: _member(name) for name in value}
    if len(set(members.values())) != len(members):  # two names differ in punctuation alone
        members = {name: f"{member}_{i}" for i, (name, member) in enumerate(members.items())}
    if kind is None:
        kind = make_dataclass(title, [(m, Any) for m in members.values()], bases=(Result,), frozen=True)
        setattr(kind, "_names", members)
        kind.__module__ = __name__
        _made[key] = kind
    return kind(*[build(title + _title(name), part) for name, part in value.items()])


def _title(name: str) -> str:
    return "".join(part.capitalize() for part in _member(name).split("_"))


def parse(title: str, text: str) -> Any:
    """Parses a JSON text into a dataclass."""
    return build(title, json.loads(text))
