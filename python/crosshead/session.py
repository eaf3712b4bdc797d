"""Sessions: sequences of tokens with their key-value cache."""

import threading
import weakref
from typing import Any, List, Optional, Sequence, Set, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from crosshead._calls import choice
from crosshead._native import ffi, running
from crosshead._tokens import token_array
from crosshead.errors import ArgumentError, BusyError, ClosedError, check, new_error
from crosshead.model import Model

#: The ids of one sequence.
Ids = Union[Sequence[int], "NDArray[np.integer[Any]]"]
#: The ids of one sequence, or a row of them for each sequence.
Tokens = Union[Ids, Sequence[Sequence[int]]]
#: Scores of every id as the next token.
Logits = NDArray[np.float32]


class _Memory:
    """Logits in the session's memory. It keeps that memory alive for arrays that point into it."""

    __slots__ = ("__array_interface__", "_owner", "__weakref__")

    def __init__(self, address: int, shape: Tuple[int, ...], owner: Any) -> None:
        self.__array_interface__ = {"version": 3, "typestr": "<f4", "shape": shape, "data": (address, True)}
        self._owner = owner


class _Interrupt(threading.local):
    failure: Optional[BaseException] = None


_interrupt = _Interrupt()


def _keep_interrupt(exception: Any, value: BaseException, traceback: Any) -> None:
    _interrupt.failure = value


def _passes_on(done: int, total: int, user: Any) -> bool:
    """Continues. Python can raise KeyboardInterrupt because this is called between passes."""
    return True


_passes = ffi.callback("ch_progress", _passes_on, error=False, onerror=_keep_interrupt)


class Session:
    """Sequences of tokens and their key-value cache.

    Feeding tokens appends them and gives logits, the score of every id as the next token: a read-only float32 array that is a view of
    the session's memory, without a copy. The view is valid until the next call; copy() it to keep the numbers. Reading it later is
    safe but gives other numbers.

    Tokens are a list or array of ids; of one sequence [count] with logits [V], of B sequences [B, count] with logits [B, V].
    Only one thread may use a session at a time.

    >>> with Model(MODEL) as model, Session(model, max_tokens=16) as session:
    ...     logits = session.feed([1, 2, 3])
    ...     logits.shape, session.length
    ((300,), 3)
    """

    def __init__(
        self,
        model: Model,
        max_tokens: int = 0,
        sequences: int = 1,
        cache: Union[str, int] = "f32",
        threads: int = 0,
        *,
        compute: Union[str, int] = "default",
        cache_keys: Union[str, int] = "default",
        cache_values: Union[str, int] = "default",
        cache_latents: Union[str, int] = "default",
        precompute_gates: bool = False,
    ) -> None:
        """max_tokens: room for each sequence, prompt included; 0 = the context length, at most 4096.
        cache: element type of the cache, "f32", "f16", "bf16", "q8_0" or "q4_0"; cache_keys, cache_values and cache_latents override it.
        compute: arithmetic of large products, "f32" or "bf16". threads: 0 = as many as OpenMP gives.
        precompute_gates: tabulates the embedding gates of all ids when the session is created."""
        self._pointer: Any = None
        if not isinstance(model, Model):
            raise TypeError(f"model must be a crosshead.Model, not {type(model).__name__}")
        settings = ffi.new("ch_session_settings *")
        running.ch_session_defaults(settings)
        try:
            settings.max_tokens, settings.sequences, settings.threads = max_tokens, sequences, threads
        except OverflowError as wrong:
            raise ArgumentError(f"max_tokens, sequences or threads is out of range: {wrong}") from wrong
        settings.precompute_gates = bool(precompute_gates)
        precision = ffi.typeof("ch_precision")
        types = {"cache": cache, "compute": compute, "cache_keys": cache_keys}
        types.update(cache_values=cache_values, cache_latents=cache_latents)
        for name, value in types.items():
            setattr(settings, name, choice(precision, value, name))
        self._setup(model, model._open())
        out, error = ffi.new("ch_session **"), new_error()
        check(running.ch_session_create(self._weights, settings, out, error), error)
        self._own(out[0])
        self.sequences = int(sequences)

    def _setup(self, model: Model, weights: Any) -> None:
        self.model, self._weights = model, weights
        self._vocabulary = running.ch_model_vocab_size(weights)
        self._lock = threading.Lock()
        self._error, self._out = new_error(), ffi.new("float **")

    def _own(self, pointer: Any) -> None:
        """Uses this session of the library from now on. The previous one is freed when no array points into it any more."""
        weights = self._weights

        def free(session: Any, weights: Any = weights) -> None:  # the weights outlive the session
            running.ch_session_free(session)

        self._pointer = ffi.gc(pointer, free)
        running.ch_session_set_progress(self._pointer, _passes, ffi.NULL)
        self._shapes: Set[Tuple[Any, ...]] = set()
        self._last: Any = None

    def __enter__(self) -> "Session":
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self.length

    def __bool__(self) -> bool:
        return True

    def close(self) -> None:
        """Frees the session. Arrays of logits that still exist keep their memory."""
        if not self._lock.acquire(blocking=False):
            raise BusyError("the session is at work; close it when its call has returned")
        self._pointer = None
        self._lock.release()

    def _open(self) -> Any:
        pointer = self._pointer
        if pointer is None:
            raise ClosedError("the session is closed; make another with crosshead.Session")
        return pointer

    # ---- Feeding tokens ----

    def feed(self, tokens: Tokens) -> Logits:
        """Appends tokens to all sequences. Returns the logits after the last token of each."""
        return self._run(running.ch_session_feed, tokens, False)

    def feed_all(self, tokens: Tokens) -> Logits:
        """Appends tokens. Returns the logits after every token, [count, V] or [B, count, V]. Memory grows with count."""
        return self._run(running.ch_session_feed_all, tokens, True)

    def _run(self, function: Any, tokens: Tokens, every: bool) -> Logits:
        array = token_array(tokens)
        if array.ndim == 1 and self.sequences != 1 or array.ndim == 2 and array.shape[0] != self.sequences:
            raise ArgumentError(
                f"tokens must be [{self.sequences}, count], one row for each sequence, not {list(array.shape)}"
            )
        count = array.shape[-1]
        shape = array.shape if every else array.shape[:-1]
        return self._feed(function, (), array, count, (every, count), shape + (self._vocabulary,))

    def feed_one(self, sequence: int, tokens: Ids) -> Logits:
        """Appends tokens to one sequence. Returns the logits [V] after the last token."""
        array = token_array(tokens, 1)
        first = (self._index(sequence),)
        return self._feed(running.ch_session_feed_one, first, array, len(array), (1, len(array)), (self._vocabulary,))

    def step(self, tokens: Ids) -> Logits:
        """Appends one token to each of the first len(tokens) sequences, which may differ in length. Returns logits [count, V]."""
        array = token_array(tokens, 1)
        if len(array) > self.sequences:
            raise ArgumentError(f"the session has {self.sequences} sequences, not {len(array)}")
        return self._feed(_step, (), array, len(array), ("step", len(array)), (len(array), self._vocabulary))

    def _index(self, sequence: int) -> int:
        if not isinstance(sequence, (int, np.integer)) or isinstance(sequence, bool):
            raise TypeError(f"a sequence is a number, not {type(sequence).__name__}")
        if not 0 <= sequence < self.sequences:
            raise ArgumentError(f"there is no sequence {sequence}; the session has {self.sequences}")
        return int(sequence)

    def _feed(
        self, function: Any, first: Tuple[int, ...], array: Any, count: int, key: Tuple[Any, ...], shape: Tuple[int, ...]
    ) -> Logits:
        if not self._lock.acquire(blocking=False):
            raise BusyError("the session is at work in another thread; give each thread a session of its own")
        try:
            pointer = self._open()
            # A pass of a new shape may move the session's memory. If an array points there, the session continues in a copy, and
            # the array keeps the old memory.
            if key not in self._shapes:
                if self._last is not None and self._last() is not None:
                    pointer = self._move()
                self._shapes.add(key)
            tokens = ffi.from_buffer("int32_t[]", array)
            status = function(pointer, *first, tokens, count, self._out, self._error)
            if status:
                self._shapes.clear()  # the library may have freed the memory
            if _interrupt.failure is not None:
                failure, _interrupt.failure = _interrupt.failure, None
                raise failure
            check(status, self._error)
            memory = _Memory(int(ffi.cast("uintptr_t", self._out[0])), shape, pointer)
            self._last = weakref.ref(memory)
            return np.asarray(memory)
        finally:
            self._lock.release()

    def _move(self) -> Any:
        out = ffi.new("ch_session **")
        check(running.ch_session_fork(self._pointer, out, self._error), self._error)
        self._own(out[0])
        return self._pointer

    def _generate(self, batch: Any, progress: Any, onerror: Any) -> None:
        """ch_generate_batch for generation.py; `progress` may end it while a prompt is read."""
        with _Use(self) as pointer:
            if self._last is not None and self._last() is not None:
                pointer = self._move()
            called = ffi.callback("ch_progress", progress, error=False, onerror=onerror)
            running.ch_session_set_progress(pointer, called, ffi.NULL)
            try:
                check(running.ch_generate_batch(pointer, batch, len(batch), self._error), self._error)
            finally:
                running.ch_session_set_progress(pointer, _passes, ffi.NULL)

    # ---- Truncating, copying, forking ----

    def truncate(self, length: int) -> None:
        """Truncates every sequence to its first `length` tokens. Shorter sequences stay unchanged."""
        with _Use(self) as pointer:
            self._said(running.ch_session_truncate, pointer, _length(length))

    def reset(self) -> None:
        """Empties all sequences without freeing memory."""
        with _Use(self) as pointer:
            running.ch_session_reset(pointer)

    def copy(self, source: int, target: int, length: int) -> None:
        """Replaces sequence `target` by the first `length` tokens of sequence `source`."""
        source, target = self._index(source), self._index(target)
        with _Use(self) as pointer:
            check(running.ch_session_copy(pointer, source, target, _length(length), self._error), self._error)

    def fork(self) -> "Session":
        """Returns a copy of this session."""
        with _Use(self) as pointer:
            out = ffi.new("ch_session **")
            check(running.ch_session_fork(pointer, out, self._error), self._error)
            other = Session.__new__(Session)
            other._setup(self.model, self._weights)
            other.sequences = self.sequences
            other._own(out[0])
            return other

    def _said(self, function: Any, *arguments: Any) -> None:
        """Calls a library function and raises its error."""
        if ffi.typeof(function).result.kind == "void":
            function(*arguments)
        else:
            check(function(*arguments, self._error), self._error)

    # ---- What a session is ----

    @property
    def length(self) -> int:
        """The number of tokens in the first sequence."""
        return int(running.ch_session_length(self._open()))

    def sequence_length(self, sequence: int) -> int:
        """The number of tokens in one sequence."""
        return int(running.ch_session_sequence_length(self._open(), self._index(sequence)))

    @property
    def capacity(self) -> int:
        """The capacity of each sequence in tokens."""
        return int(running.ch_session_capacity(self._open()))

    @property
    def cache_bytes(self) -> int:
        """The bytes allocated for the cache."""
        return int(running.ch_session_cache_bytes(self._open()))

    @property
    def cache_token_bytes(self) -> int:
        """The bytes of the cache per token, all layers together."""
        return int(running.ch_session_cache_token_bytes(self._open()))

    @property
    def end_tokens(self) -> List[int]:
        """The ids that end a text in this session; they can be set."""
        ids = ffi.new("int32_t **")
        count = running.ch_session_end_tokens(self._open(), ids)
        return list(ids[0][0:count]) if count else []

    @end_tokens.setter
    def end_tokens(self, ids: Ids) -> None:
        array = token_array(ids, 1, empty=True)
        with _Use(self) as pointer:
            data = ffi.from_buffer("int32_t[]", array)
            check(running.ch_session_set_end_tokens(pointer, data, len(array), self._error), self._error)


class _Use:
    """Yields the session's pointer for this thread alone."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def __enter__(self) -> Any:
        if not self.session._lock.acquire(blocking=False):
            raise BusyError("the session is at work in another thread; give each thread a session of its own")
        try:
            return self.session._open()
        except BaseException:
            self.session._lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        self.session._lock.release()


def _length(length: Any) -> int:
    if not isinstance(length, (int, np.integer)) or isinstance(length, bool):
        raise TypeError(f"a length is a number of tokens, not {type(length).__name__}")
    if not -(2**63) <= length < 2**63:
        raise ArgumentError(f"a length of {length} is out of range")
    return int(length)


def _step(pointer: Any, tokens: Any, count: int, out: Any, error: Any) -> int:
    return int(running.ch_session_step(pointer, count, tokens, out, error))
