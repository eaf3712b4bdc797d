"""Crosshead models in lm-evaluation-harness: `python -m crosshead.lm_eval --model crosshead --model_args model=DIR …`

This is the harness's own program with one more model type. It needs `pip install lm_eval`.
"""

from typing import Any, Dict, List, Optional, Tuple

try:
    from lm_eval.api.model import LM  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from lm_eval.api.registry import register_model  # type: ignore[import-not-found,import-untyped,unused-ignore]
except ImportError as error:
    raise ImportError("crosshead.lm_eval needs lm-evaluation-harness; install it with `pip install lm_eval`") from error

import numpy as np

from crosshead.errors import ArgumentError
from crosshead.generation import generate
from crosshead.model import Model
from crosshead.scoring import score
from crosshead.session import Session

_PART = 256  # tokens whose logits exist at once
_LIMITS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")  # the harness's names; the first that is set counts


@register_model("crosshead")  # type: ignore[untyped-decorator,no-untyped-call,misc,unused-ignore]
class CrossheadLM(LM):  # type: ignore[misc,unused-ignore]
    """model: a model directory. window: tokens that it sees at once; 0 = the context. threads: 0 = as many as OpenMP gives.
    max_gen_toks: tokens of an answer, at most. batch_size: texts generated at a time."""

    def __init__(
        self,
        model: str,
        window: int = 0,
        threads: int = 0,
        max_gen_toks: int = 256,
        batch_size: Optional[int] = None,
        max_batch_size: Optional[int] = None,
        device: Optional[str] = None,
    ) -> None:
        super().__init__()
        self.model = Model(model)
        self.window = int(window) or self.model.context_length
        self.threads, self.max_gen_toks = int(threads), int(max_gen_toks)
        self.sequences = int(str(batch_size)) if str(batch_size).isdigit() else 1

    def loglikelihood(self, requests: List[Any], disable_tqdm: bool = False) -> List[Tuple[float, bool]]:
        """Returns ln p of each continuation, and True if it is the greedy one."""
        pairs = [request.args for request in requests]
        scores = score(self.model, pairs, window=self.window, threads=self.threads)
        return [(one.log_likelihood, one.greedy) for one in scores]

    def loglikelihood_rolling(self, requests: List[Any], disable_tqdm: bool = False) -> List[float]:
        """Returns ln p of whole texts. Each token is scored once, in consecutive windows as in the harness."""
        from lm_eval.utils import get_rolling_token_windows, make_disjoint_window  # type: ignore[import-not-found,import-untyped,unused-ignore]

        found = []
        with Session(self.model, max_tokens=self.window, threads=self.threads) as session:
            for request in requests:
                ids = self._encode(request.args[0])
                windows = get_rolling_token_windows(ids, self._first(), self.window, 1)
                found.append(sum(self._window(session, *make_disjoint_window(window)) for window in windows))
        return found

    def _first(self) -> int:
        """Returns the token that precedes a text: the beginning-of-text token, otherwise the end-of-text token."""
        from crosshead._native import running

        tokenizer = running.ch_model_tokenizer(self.model._open())
        begin = int(running.ch_tokenizer_bos(tokenizer))
        first = begin if begin >= 0 else int(running.ch_tokenizer_eos(tokenizer))
        if first < 0:
            raise ArgumentError(f"{self.model.directory} names no beginning and no end token, which stands before texts without context")
        return first

    def _encode(self, text: str) -> List[int]:
        """Encodes a text with the tokenizer's default special tokens, unless it already begins with one."""
        return self.model.encode(text, special=True, whole=not text.startswith(self.model.decode([self._first()])))

    def _window(self, session: Session, context: List[int], targets: List[int]) -> float:
        tokens = (context + targets)[:-1]
        skipped, total = len(context) - 1, 0.0
        session.reset()
        for at in range(0, len(tokens), _PART):
            part = tokens[at : at + _PART]
            logits = session.feed_all(part).astype(np.float64)
            largest = logits.max(axis=1)
            norm = largest + np.log(np.exp(logits - largest[:, None]).sum(axis=1))
            for i in range(max(0, skipped - at), len(part)):
                total += logits[i, targets[at + i - skipped]] - norm[i]
        return total

    def generate_until(self, requests: List[Any], disable_tqdm: bool = False) -> List[str]:
        """Generates texts up to a stop string. Requests with the same options run together."""
        found: List[Optional[str]] = [None] * len(requests)
        groups: Dict[str, List[int]] = {}
        for i, request in enumerate(requests):
            groups.setdefault(repr(sorted(request.args[1].items())), []).append(i)
        for members in groups.values():
            options = dict(requests[members[0]].args[1])
            until = options.get("until") or []
            until = [until] if isinstance(until, str) else list(until)
            until += [self.model.decode([end]) for end in self.model.end_tokens]  # an end token may also be spelt out
            limit = next((int(options[name]) for name in _LIMITS if options.get(name) is not None), self.max_gen_toks)
            if limit >= self.window:
                raise ArgumentError(
                    f"max_gen_toks of {limit} leaves no room for a prompt in the {self.window} tokens that the model sees; it must be smaller"
                )
            sampled = options.get("do_sample", False) or options.get("temperature", 0) > 0
            prompts = [self._prompt(requests[i].args[0], limit) for i in members]
            count = min(self.sequences, len(prompts))
            session = Session(self.model, max_tokens=self.window, threads=self.threads, sequences=count)
            made = generate(
                session,
                prompts,
                max_tokens=limit,
                temperature=options.get("temperature", 1.0) if sampled else 0,
                top_p=options.get("top_p", 1.0) if sampled else 1.0,
                # Decoding drops a blank at the beginning of a text. _answer applies the strings that begin with one.
                stop=[stop for stop in until if stop and not stop.startswith(" ")],
            )
            for i, text in zip(members, made.texts()):
                found[i] = self._answer(text.tokens, until)
        return [text or "" for text in found]

    def _prompt(self, text: str, limit: int) -> List[int]:
        """Returns the last part of a prompt that leaves room for the answer."""
        return self._encode(text)[-(self.window - limit) :]

    def _answer(self, tokens: List[int], until: List[str]) -> str:
        """Returns the generated text up to the first stop string."""
        text = self.model.decode(tokens, special=False)
        for stop in until:
            if stop:
                text = text.split(stop)[0]
        return text


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate  # type: ignore[import-not-found,import-untyped,unused-ignore]

    cli_evaluate()
