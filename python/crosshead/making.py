"""Training, evaluating, compressing and converting models.

Keywords are the members of the library's structures of settings and of their parts, under the same names (structs.py lists them). None
leaves the default. The keyword of a callback is on_ and the name of an event or of a member. It is called with what the library
reports, as dataclasses and numbers. If it returns False, the work ends with crosshead.Interrupted. If it raises an exception, the
work ends and the exception is raised again; Ctrl-C does the same.
"""

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, Optional, Sequence, Union

from crosshead._calls import Call, choice, documented, to_bytes
from crosshead._native import ffi, making, take
from crosshead.errors import ArgumentError, check, new_error
from crosshead.model import Model, Path
from crosshead.results import parse

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from crosshead.structs import (
        CapacitySettings,
        CompressSettings,
        EvaluateSettings,
        ExportSettings,
        ImportSettings,
        QuantizeSettings,
        TrainSettings,
    )


@contextmanager
def _opened(model: Union[Model, Path]) -> Iterator[Any]:
    """Yields the C model of a Model, or of a directory that is opened for this call."""
    if isinstance(model, Model):
        yield model._open()
    else:
        with Model(model) as made:
            yield made._open()


@documented("EvaluateSettings")
def evaluate(
    model: Union[Model, Path],
    *,
    text: Optional[Path] = None,
    task: Optional[Path] = None,
    images: Optional[Path] = None,
    **settings: "Unpack[EvaluateSettings]",
) -> Any:
    """Evaluates a model on a text, a task (with items=FILE) or images. Returns the result of `crosshead eval --json`.

    on_sample gets each item of a task as a dictionary.

    >>> evaluate(MODEL, text=TEXT, limit=65).tokens
    64
    """
    given = [(name, value) for name, value in (("text", text), ("task", task), ("images", images)) if value is not None]
    if len(given) != 1:
        raise TypeError("give one of text, task and images")
    name, value = given[0]
    keywords: Dict[str, Any] = dict(settings)
    on_sample = keywords.get("on_sample")
    if callable(on_sample):
        keywords["on_sample"] = lambda line: on_sample(json.loads(line))
    call = Call("ch_evaluate_settings", making.ch_evaluate_defaults, keywords)
    function = getattr(making, f"ch_evaluate_{name}")
    path = to_bytes(value, name)
    with _opened(model) as pointer:
        error, out = new_error(), ffi.new("char **")
        status = function(pointer, path, call.settings, out, error)
        result = take(out[0]) if out[0] else ""
        call.done(status, error)
    return parse("EvaluateResult", result)


@documented("TrainSettings")
def train(out: Path, **settings: "Unpack[TrainSettings]") -> Any:
    """Trains a model into the directory OUT; needs config= or init_from=, and data=. Returns the result of `crosshead train --json`.

    resume=True continues an interrupted run. on_step gets a structs.TrainStep.
    """
    call = Call("ch_train_settings", making.ch_train_defaults, dict(settings))
    return parse("TrainResult", _to(call, making.ch_train, out))


@documented("CompressSettings")
def compress(model: Path, out: Path, **settings: "Unpack[CompressSettings]") -> Any:
    """Compresses a model directory into OUT, as in method="svd", ratio=0.2. Returns the result of `crosshead compress --json`."""
    call = Call("ch_compress_settings", making.ch_compress_defaults, dict(settings))
    return parse("CompressResult", _from_to(call, making.ch_compress_model, model, out))


@documented("QuantizeSettings")
def quantize(model: Path, out: Path, **settings: "Unpack[QuantizeSettings]") -> Any:
    """Quantises a model directory into OUT (type="q8_0").

    Returns the result of `crosshead quantize --json`.
    """
    call = Call("ch_quantize_settings", making.ch_quantize_defaults, dict(settings))
    return parse("QuantizeResult", _from_to(call, making.ch_quantize, model, out))


@documented("ImportSettings")
def import_model(path: Path, out: Path, **settings: "Unpack[ImportSettings]") -> Any:
    """Converts a GGUF file, a llama2.c checkpoint or a Hugging Face directory to the model directory OUT."""
    call = Call("ch_import_settings", making.ch_import_defaults, dict(settings))
    return parse("ImportResult", _from_to(call, making.ch_import, path, out))


@documented("ExportSettings")
def export_model(model: Path, out: Path, **settings: "Unpack[ExportSettings]") -> Any:
    """Exports a model directory for other programs: format="safetensors", "gguf" or "transformers"."""
    call = Call("ch_export_settings", making.ch_export_defaults, dict(settings))
    return parse("ExportResult", _from_to(call, making.ch_export, model, out))


def _directory(model: Any) -> bytes:
    return to_bytes(model.directory if isinstance(model, Model) else model, "the model")


def _to(call: Call, function: Callable[..., int], out: Path) -> str:
    error, result = new_error(), ffi.new("char **")
    status = function(to_bytes(out, "out"), call.settings, result, error)
    text = take(result[0]) if result[0] else ""
    call.done(status, error)
    return text


def _from_to(call: Call, function: Callable[..., int], model: Path, out: Path) -> str:
    return call.json(function, _directory(model), to_bytes(out, "out"))


@documented("CapacitySettings")
def plan(
    models: Union[Path, Sequence[Path]] = (),
    *,
    devices: Union[str, Sequence[str]] = "here",
    compute: str = "f32",
    **settings: "Unpack[CapacitySettings]",
) -> Any:
    """Predicts which models fit into memory, and how fast they run. Returns the result of `crosshead plan --json`.

    models: model directories and config.json files; mechanisms="mha,mla" names others. devices: names that `crosshead plan` knows,
    lines of figures, or "here", which measures this machine for some seconds. context= must be set.
    """
    call = Call("ch_capacity_settings", making.ch_capacity_defaults, dict(settings))
    names = [devices] if isinstance(devices, str) else list(devices)
    paths = [models] if isinstance(models, (str, os.PathLike)) else list(models)
    if not names:
        raise ArgumentError("no devices were given; at least one is needed")
    error = new_error()
    made = ffi.new("ch_device[]", len(names))
    for i, name in enumerate(names):
        if name == "here":
            precision = choice(ffi.typeof("ch_precision"), compute, "compute")
            check(making.ch_device_measure(precision, ffi.addressof(made, i), error), error)
        else:
            check(making.ch_device_read(to_bytes(name, "a device"), ffi.addressof(made, i), error), error)
    call.point("devices", made)
    call.settings.device_count = len(names)
    strings = [ffi.new("char[]", to_bytes(path, "a model")) for path in paths]
    call.point("models", ffi.new("char *[]", strings))
    call.settings.model_count = len(strings)
    out, result = ffi.new("ch_capacity **"), ffi.new("char **")
    status = making.ch_capacity_plan(call.settings, out, error)
    if status == 0:
        status = making.ch_capacity_json(out[0], result, error)
        making.ch_capacity_free(out[0])
    call.done(status, error)
    return parse("Plan", take(result[0]))
