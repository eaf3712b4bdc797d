"""Comparisons of attention mechanisms."""

import html
import json
import math
import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, List, Optional

from crosshead._calls import Call, documented, to_bytes
from crosshead._native import ffi, making, running, take, text
from crosshead.errors import check, new_error
from crosshead.model import Path
from crosshead.results import parse

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from crosshead.structs import CompareSettings


@dataclass(frozen=True)
class Behind:
    """How far a choice is behind the best model: a 95 % interval, as a share of the best loss (of images, in accuracy). None if unknown."""

    low: Optional[float]
    high: Optional[float]


@dataclass(frozen=True)
class Choice:
    """The best model at a size of the cache, in bytes per token."""

    name: str
    cache_bytes_per_token: float
    loss: float
    behind: Behind
    behind_tokens: Optional[float]  #: the share of extra training tokens that would make up for behind.high; None if it is unknown or no number of tokens would
    tied_with: List[str]


@dataclass(frozen=True)
class Verdict:
    """Which model to choose at each size of the cache, and the risk of that choice."""

    kind: str
    names: List[str]
    sentence: str
    seeds: int
    choices: List[Choice]


@dataclass(frozen=True)
class Comparison:
    """The results of a comparison. A notebook shows its report."""

    directory: str
    verdict: Verdict
    table: str
    results: Any  #: results.json as dataclasses

    def __str__(self) -> str:
        return self.table

    def page(self) -> str:
        """Returns the report as one self-contained HTML page."""
        with open(os.path.join(self.directory, "report.html"), encoding="utf-8") as file:
            return file.read()

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self.page())}" style="width: 100%; height: 48em; border: 0"></iframe>'

    def to_pandas(self) -> Any:
        """Returns a pandas DataFrame with a row for each run."""
        return self.results.to_pandas()


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and hasattr(shell.get_ipython(), "kernel")


class _Progress:
    """Prints the progress of a comparison on one line, once a second."""

    def __init__(self, on_step: Optional[Callable[[Any], Any]]) -> None:
        self.on_step, self.next = on_step, 0.0

    def __call__(self, position: Any) -> Any:
        last = position.step.step == position.step.steps
        if last or time.monotonic() >= self.next:
            self.next = time.monotonic() + 1
            line = f"{position.name}, run {position.run + 1} of {position.runs}: step {position.step.step} of {position.step.steps}"
            print(f"\r{line}, loss {position.step.loss:.3f}   ", end="\n" if last else "", file=sys.stderr, flush=True)
        return self.on_step(position) if self.on_step else None


@documented("CompareSettings")
def compare(out: Path, *, progress: Optional[bool] = None, **settings: "Unpack[CompareSettings]") -> Comparison:
    """Trains a model with each mechanism and recommends one. Writes models, results.json and report.html to OUT.

    data= (or images=), mechanisms="mha,gqa,mla" and the other members of ch_compare_settings. The same settings continue the
    comparison in OUT. on_step gets a structs.ComparePosition after every step. A callback that returns False, an exception and Ctrl-C
    end it; finished models are saved. progress: print the progress on standard error; None means only in a notebook.
    """
    keywords: Any = dict(settings)
    on_step = keywords.get("on_step")
    if (progress or progress is None and _in_notebook()) and (on_step is None or callable(on_step)):
        keywords["on_step"] = _Progress(on_step)
    call = _call(out, keywords)
    error, comparison = new_error(), ffi.new("ch_comparison **")
    status = making.ch_compare_mechanisms(call.settings, comparison, error)
    made = ffi.gc(comparison[0], making.ch_comparison_free) if comparison[0] else None
    call.done(status, error)
    return Comparison(
        os.fspath(out),
        _verdict(made),
        _text(making.ch_comparison_table, made),
        parse("CompareResult", _text(making.ch_comparison_json, made)),
    )


@documented("CompareSettings")
def foresee(out: Path, **settings: "Unpack[CompareSettings]") -> Any:
    """Estimates what compare(OUT, ...) needs with the same settings: parameters, time, memory and disk space of each mechanism.

    Times some steps of each model, for about a second, and writes nothing to OUT. Returns the result of `crosshead compare --dry-run --json`.
    """
    call = _call(out, dict(settings))
    error, forecast = new_error(), ffi.new("ch_compare_forecast **")
    status = making.ch_compare_foresee(call.settings, forecast, error)
    made = ffi.gc(forecast[0], making.ch_compare_forecast_free) if forecast[0] else None
    call.done(status, error)
    return parse("Forecast", _text(making.ch_compare_forecast_json, made))


@documented("CompareSettings")
def config(mechanism: str, *, like: Optional[Path] = None, **settings: "Unpack[CompareSettings]") -> Any:
    """Returns the config.json, as a dictionary, of the model that compare() trains for a mechanism. parameters=300_000_000 sets its size.

    like: a model directory or config.json whose vocabulary, context and activation are used; its size too, unless parameters, layers,
    hidden or heads is set. Only the settings of the shape have an effect: parameters, layers, hidden, heads, vocab or tokenizer,
    sequence, match, cache_per_token, init and parametrization.

    >>> config("gqa:2", parameters=1_000_000, vocab=512)["attention"]["type"]
    'gqa'
    """
    keywords: Any = dict(settings, mechanisms=mechanism)
    if like is not None:
        keywords.setdefault("sequence", 0)
    call = Call("ch_compare_settings", making.ch_compare_defaults, keywords)
    where = ffi.NULL if like is None else ffi.new("char[]", to_bytes(like, "like"))
    error, out = new_error(), ffi.new("char **")
    check(making.ch_compare_config(ffi.addressof(call.settings.lineup), where, out, error), error)
    return json.loads(take(out[0]))


def _call(out: Path, settings: Any) -> Call:
    call = Call("ch_compare_settings", making.ch_compare_defaults, settings)
    call.point("out", ffi.new("char[]", to_bytes(out, "out")))
    return call


def _text(function: Any, comparison: Any) -> str:
    error, out = new_error(), ffi.new("char **")
    check(function(comparison, out, error), error)
    return take(out[0])


def _known(value: float) -> Optional[float]:
    return value if math.isfinite(value) else None


def _choice(choice: Any) -> Choice:
    high = _known(choice.behind_high)
    return Choice(
        text(choice.name) or "",
        choice.cache_bytes_per_token,
        choice.loss,
        Behind(None if high is None else choice.behind_low, high),
        _known(choice.behind_tokens),
        [text(choice.tied_with[i]) or "" for i in range(choice.tied_count)],
    )


def _verdict(comparison: Any) -> Verdict:
    error, out = new_error(), ffi.new("ch_comparison_decision **")
    check(making.ch_comparison_verdict(comparison, out, error), error)
    decision = out[0]
    names = [text(decision.names[i]) or "" for i in range(decision.name_count)]
    choices = [_choice(decision.choices[i]) for i in range(decision.choice_count)]
    verdict = Verdict(text(making.ch_verdict_kind_name(decision.kind)) or "", names, text(decision.sentence) or "", decision.seeds, choices)
    running.ch_free(decision)
    return verdict
