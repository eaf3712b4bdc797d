"""Open models."""

import os
from typing import Any, List, Optional, Sequence, Union

from crosshead._calls import to_bytes
from crosshead._native import ffi, running, take, text
from crosshead._tokens import token_array
from crosshead.errors import ClosedError, check, new_error
from crosshead.results import Result, parse

Path = Union[str, "os.PathLike[str]"]


class Model:
    """An open model directory of Crosshead, or of a supported Hugging Face family.

    It never changes, so any number of threads may share it. If it is closed while sessions exist, the weights are freed with the last
    session.

    >>> with Model(MODEL) as model:
    ...     model.vocab_size, model.decode(model.encode("To be"))
    (300, 'To be')
    """

    def __init__(
        self,
        directory: Path,
        tokenizer: Optional[Path] = None,
        *,
        preload: bool = False,
        keep_dictionary: bool = False,
        no_tokenizer: bool = False,
    ) -> None:
        """Opens DIRECTORY; the other arguments are the members of ch_model_settings."""
        self._pointer: Any = None
        settings = ffi.new("ch_model_settings *")
        kept = ffi.NULL if tokenizer is None else ffi.new("char[]", to_bytes(tokenizer, "tokenizer"))
        settings.tokenizer = kept
        settings.preload, settings.keep_dictionary = bool(preload), bool(keep_dictionary)
        settings.no_tokenizer = bool(no_tokenizer)
        self.directory = os.fspath(directory)
        out, error = ffi.new("ch_model **"), new_error()
        check(running.ch_model_open_with(to_bytes(directory, "directory"), settings, out, error), error)
        self._pointer = ffi.gc(out[0], running.ch_model_close)

    def __enter__(self) -> "Model":
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<crosshead.Model {self.directory!r}{'' if self._pointer else ', closed'}>"

    def close(self) -> None:
        """Closes the model. Calling it twice is fine."""
        self._pointer = None

    def _open(self) -> Any:
        pointer = self._pointer
        if pointer is None:
            raise ClosedError(f"the model of {self.directory} is closed; open it again with crosshead.Model")
        return pointer

    @property
    def vocab_size(self) -> int:
        """The number of token ids: valid ids are 0 ... vocab_size - 1."""
        return int(running.ch_model_vocab_size(self._open()))

    @property
    def context_length(self) -> int:
        """The longest sequence that the model was trained for, in tokens."""
        return int(running.ch_model_context_length(self._open()))

    @property
    def layers(self) -> int:
        """The number of layers."""
        return int(running.ch_model_layers(self._open()))

    @property
    def type(self) -> str:
        """The "model_type" of its configuration."""
        return text(running.ch_model_type(self._open())) or ""

    @property
    def has_tokenizer(self) -> bool:
        """True if the model has a tokenizer."""
        return bool(running.ch_model_has_tokenizer(self._open()))

    @property
    def end_tokens(self) -> List[int]:
        """The ids that end a text."""
        model, ids = self._open(), ffi.new("int32_t **")
        count = running.ch_model_end_tokens(model, ids)
        return list(ids[0][0:count]) if count else []

    def info(self) -> Result:
        """Returns the result of `crosshead info --json`: parameters_total, cache_elements_per_token and the rest."""
        model, out, error = self._open(), ffi.new("char **"), new_error()
        check(running.ch_model_info(model, out, error), error)
        result: Result = parse("Info", take(out[0]))
        return result

    def encode(self, text: str, *, begin: bool = False, special: bool = False, whole: bool = False) -> List[int]:
        """Encodes a text to token ids.

        begin: puts the beginning-of-text token in front, if the tokenizer uses one.
        whole: adds the tokens that the tokenizer adds around a text by default (add_special_tokens of Hugging Face's tokenizers); not
        with begin.
        special: special tokens that are written out in the text become their ids; never set it for text that a stranger wrote.
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a string, not {type(text).__name__}")
        model, data, error, count = self._open(), text.encode("utf-8"), new_error(), ffi.new("size_t *")
        flags = (running.CH_TEXT_BEGINS if begin else 0) | (running.CH_TEXT_SPECIAL if special else 0)
        flags |= running.CH_TEXT_WHOLE if whole else 0
        capacity = len(data) + 16
        ids = ffi.new("int32_t[]", capacity)
        status = running.ch_encode_text(model, data, len(data), flags, ids, capacity, count, error)
        if status == running.CH_ERROR_FULL:
            ids = ffi.new("int32_t[]", count[0])
            status = running.ch_encode_text(model, data, len(data), flags, ids, count[0], count, error)
        check(status, error)
        return list(ids[0 : count[0]])

    def decode(self, tokens: Sequence[int], *, special: bool = True) -> str:
        """Decodes token ids to text. Bytes that are not UTF-8 become U+FFFD. special: keep special tokens in the text."""
        model, error = self._open(), new_error()
        ids = token_array(tokens, 1, empty=True)
        out, size = ffi.new("char **"), ffi.new("size_t *")
        flags = 0 if special else running.CH_TEXT_NO_SPECIAL
        pointer = ffi.from_buffer("int32_t[]", ids)
        check(running.ch_decode_tokens(model, pointer, len(ids), flags, out, size, error), error)
        try:
            return str(ffi.unpack(out[0], size[0]).decode("utf-8", "replace"))
        finally:
            running.ch_free(out[0])
