"""Text generation for many prompts at once, streamed in pieces."""

import atexit
import difflib
import inspect
import queue
import threading
import weakref
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

from crosshead._native import ffi, running, text
from crosshead._tokens import token_array
from crosshead.errors import ArgumentError, check, new_error
from crosshead.model import Model
from crosshead.session import Session
from crosshead.structs import GenerationResult

Prompt = Union[str, Sequence[int]]


_running: "weakref.WeakSet[Generation]" = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """Stops all generations at exit, because the library must not call Python after that."""
    for generation in list(_running):
        generation.close()


@dataclass(frozen=True)
class Piece:
    """A new piece of text for one prompt."""

    index: int
    text: str


@dataclass(frozen=True)
class Text:
    """The finished text of one prompt. end: "end", "length", "context", "stopped", "failed" or "stop string"."""

    index: int
    text: str
    tokens: List[int]
    end: str
    stop_string: Optional[str]
    generated: GenerationResult


class Generation:
    """A running generation. Iterate over it to get pieces as they arrive; texts() waits for the end.

    The work runs in its own thread. It ends when all texts end, when you leave the loop, or at close().
    """

    def __repr__(self) -> str:
        count = len(self._written)
        texts = "1 text" if count == 1 else f"{count} texts"
        if not self._finished:
            return f"<crosshead.Generation of {texts}, being written: iterate over it for pieces, or wait for its text or texts()>"
        if count == 1:
            return f"<crosshead.Generation of {texts}: {''.join(self._written[0])!r}>"
        return f"<crosshead.Generation of {texts}, finished: see texts()>"

    @property
    def text(self) -> str:
        """The text after the only prompt; waits for the end. For several prompts use texts().

        >>> with Model(MODEL) as model:
        ...     generation = generate(model, "To be", max_tokens=4, temperature=0)
        ...     generation.text == generation.texts()[0].text, repr(generation)[:33]
        (True, '<crosshead.Generation of 1 text: ')
        """
        texts = self.texts()
        if len(texts) != 1:
            raise ArgumentError(f"there are {len(texts)} prompts; texts() has the text of each")
        return texts[0].text

    def __init__(self, session: Session, prompts: List[Prompt], options: Dict[str, Any]) -> None:
        self._pieces: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._stopped = False
        self._failure: Optional[BaseException] = None
        self._written: List[List[str]] = [[] for _ in prompts]
        self._texts: List[Text] = []
        self._finished = False
        self._session, self._stops = session, options["stop"]
        self._kept: List[Any] = []
        self._batch = ffi.new("ch_batch_text[]", len(prompts))
        for i, prompt in enumerate(prompts):
            self._fill(i, prompt, options)
        _running.add(self)
        self._thread = threading.Thread(target=self._work, name="crosshead.generate", daemon=True)
        self._thread.start()

    def _fill(self, i: int, prompt: Prompt, options: Dict[str, Any]) -> None:
        one = self._batch[i]
        if isinstance(prompt, str):
            one.prompt = self._keep(ffi.new("char[]", _utf8(prompt, f"prompt {i}")))
            one.prompt_special = options["special"]
        else:
            ids = token_array(prompt, 1)
            one.prompt_tokens = self._keep(ffi.from_buffer("int32_t[]", ids))
            one.prompt_token_count = len(ids)
        sampler = self._keep(ffi.new("ch_sampler *"))
        running.ch_sampler_defaults(sampler, (options["seed"] + i) % 2**64)
        sampler.temperature, sampler.top_p = options["temperature"], options["top_p"]
        try:
            sampler.top_k, one.max_tokens = options["top_k"], options["max_tokens"]
        except OverflowError as error:
            raise ArgumentError(f"top_k or max_tokens is out of range: {error}") from error
        one.sampler = sampler
        one.ids = self._keep(ffi.new("ch_ids *"))
        if self._stops:
            strings = [self._keep(ffi.new("char[]", _utf8(stop, "a stop string"))) for stop in self._stops]
            one.stops, one.stop_count = self._keep(ffi.new("char *[]", strings)), len(strings)

        def sink(data: Any, size: int, user: Any) -> bool:
            piece = ffi.unpack(data, size).decode("utf-8", "replace")
            self._written[i].append(piece)
            self._pieces.put(Piece(i, piece))
            return not self._stopped

        def each(token: Any, top: Any, count: int, user: Any) -> bool:
            return not self._stopped

        one.sink = self._keep(ffi.callback("ch_text_sink", sink, error=False, onerror=self._failed))
        one.token_sink = self._keep(ffi.callback("ch_token_sink", each, error=False, onerror=self._failed))

    def _keep(self, value: Any) -> Any:
        self._kept.append(value)
        return value

    def _failed(self, exception: Any, value: BaseException, traceback: Any) -> None:
        self._failure, self._stopped = value, True

    def _work(self) -> None:
        try:
            self._session._generate(self._batch, self._goes_on, self._failed)
        except BaseException as error:  # raised again in the thread that waits
            self._failure = error
        for i in range(len(self._batch)):
            self._texts.append(self._text(i))
        self._kept.clear()
        self._pieces.put(None)

    def _goes_on(self, done: int, total: int, user: Any) -> bool:
        return not self._stopped

    def _text(self, i: int) -> Text:
        one = self._batch[i]
        made = one.generated
        tokens = list(one.ids.data[0 : one.ids.size]) if one.ids.size else []
        running.ch_ids_free(one.ids)
        stop = self._stops[made.stop_string] if made.end == running.CH_END_STRING else None
        figures = GenerationResult(**{name: getattr(made, name) for name in GenerationResult.__dataclass_fields__})
        end = text(running.ch_end_name(made.end)) or ""
        return Text(i, "".join(self._written[i]), tokens, end, stop, figures)

    def __iter__(self) -> Iterator[Piece]:
        try:
            while not self._finished:
                piece = self._pieces.get()
                if piece is None:
                    break
                yield piece
        finally:
            self.close()
        self._raise()

    def close(self) -> None:
        """Stops the generation. Text generated so far stays available."""
        self._stopped = True
        self._thread.join()
        self._finished = True

    def __enter__(self) -> "Generation":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def texts(self) -> List[Text]:
        """Waits for the end and returns the texts in the order of the prompts."""
        if not self._finished:
            for _ in self:
                pass
        self._raise()
        return list(self._texts)

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure


def _utf8(value: Any, name: str) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {type(value).__name__}")
    data = value.encode("utf-8")
    if b"\0" in data:
        raise ArgumentError(f"{name} contains a NUL character; give its token ids instead")
    return data


#: Names that other packages have for the arguments of generate().
_ELSEWHERE = {"max_new_tokens": "max_tokens", "max_length": "max_tokens", "n_predict": "max_tokens", "stop_strings": "stop"}
_ELSEWHERE.update({"do_sample": "temperature", "temp": "temperature", "prompt": "prompts", "random_seed": "seed"})


def _check_keywords(given: Dict[str, Any]) -> None:
    """Raises TypeError for keywords that neither generate() nor Session has."""
    for_session = [name for name in inspect.signature(Session.__init__).parameters if name not in ("self", "model")]
    own = [name for name in inspect.signature(generate).parameters if name not in ("model", "session")]
    for name in given:
        if name in for_session:
            continue
        near = _ELSEWHERE.get(name) or next(iter(difflib.get_close_matches(name, own + for_session, 1)), None)
        hint = f"did you mean {near}?" if near else f"it has {', '.join(own + for_session)}"
        raise TypeError(f"generate() has no argument {name}; {hint}")


def generate(
    model: Union[Model, Session],
    prompts: Union[str, Sequence[Prompt]],
    *,
    max_tokens: int = 0,
    temperature: float = 0.8,
    top_k: int = 40,
    top_p: float = 0.95,
    seed: int = 0,
    stop: Union[str, Sequence[str]] = (),
    special: bool = False,
    **session: Any,
) -> Generation:
    """Generates a text for each prompt, as many at a time as the session has sequences.

    prompts: a string, or a list of strings and of lists of token ids. max_tokens: of each text; 0 = as many as fit. temperature=0
    chooses the likeliest token; temperature=1, top_k=0, top_p=1 draw from the model's own distribution. Prompt i draws with seed + i.
    stop: strings before which a text ends. special: special tokens written out in prompts become their ids. Other keywords are
    Session's (cache, threads, sequences). A Session may be given instead of a model; the tokens that it holds are removed.

    >>> with Model(MODEL) as model:
    ...     texts = generate(model, ["To be", [1, 2]], max_tokens=4, temperature=0).texts()
    ...     [(len(text.tokens), text.end) for text in texts]
    [(4, 'length'), (4, 'length')]
    """
    _check_keywords(session)
    parts: List[Any] = [prompts] if isinstance(prompts, str) else list(prompts)
    if not parts:
        raise ArgumentError("no prompts were given; at least one is needed")
    if all(isinstance(part, int) for part in parts):
        parts = [parts]
    if isinstance(model, Session):
        if session:
            raise TypeError(f"{', '.join(session)}: a session already has these settings; give a model")
        made = model
    else:
        session.setdefault("sequences", min(len(parts), running.CH_BATCH_MOST))
        made = Session(model, **session)
    stops = [stop] if isinstance(stop, str) else list(stop)
    options = dict(max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, stop=stops)
    options["special"] = bool(special)
    return Generation(made, parts, options)
