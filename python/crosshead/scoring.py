"""Log-likelihoods of continuations, by the rules of lm-evaluation-harness."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, List, Sequence, Tuple, Union

from crosshead._calls import Call, documented
from crosshead._native import ffi, making
from crosshead.errors import ArgumentError, new_error
from crosshead.making import _opened
from crosshead.model import Model, Path

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from crosshead.structs import EvaluateSettings


@dataclass(frozen=True)
class Score:
    """The score of a continuation: the sum of ln p over its tokens, and True if each is the likeliest one."""

    log_likelihood: float
    tokens: int
    greedy: bool


@documented("EvaluateSettings")
def score(
    model: Union[Model, Path], requests: Sequence[Tuple[str, str]], **settings: "Unpack[EvaluateSettings]"
) -> List[Score]:
    """Scores pairs of a context and a continuation. Neighbours with the same context compute it once.

    >>> [one.tokens > 0 for one in score(MODEL, [("To be,", " or not"), ("To be,", " and")])]
    [True, True]
    """
    call = Call("ch_evaluate_settings", making.ch_evaluate_defaults, dict(settings))
    made, kept = ffi.new("ch_continuation[]", len(requests)), []
    for one, pair in zip(made, requests):
        for member, part in zip(("context", "continuation"), pair):
            if not isinstance(part, str):
                raise TypeError(f"a {member} must be a string, not {type(part).__name__}")
            if "\0" in part:
                raise ArgumentError(f"a {member} contains a NUL character; leave it out")
            kept.append(ffi.new("char[]", part.encode("utf-8")))
            setattr(one, member, kept[-1])
    error = new_error()
    with _opened(model) as pointer:
        call.done(making.ch_score_continuations(pointer, made, len(made), call.settings, error), error)
    return [Score(one.log_likelihood, one.tokens, bool(one.greedy)) for one in made]
