"""Calls that take settings and callbacks: keywords become members of the library's structures."""

import difflib
import numbers
import os
import textwrap
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

from crosshead import structs
from crosshead._native import ffi, take, text
from crosshead.errors import ArgumentError, check, new_error

_Function = TypeVar("_Function", bound=Callable[..., Any])


def to_bytes(value: Any, name: str) -> bytes:
    """Returns a path or a string as bytes for C."""
    data = os.fsencode(value) if isinstance(value, (str, os.PathLike)) else None
    if data is None:
        raise TypeError(f"{name} must be a string or a path, not {type(value).__name__}")
    if b"\0" in data:
        raise ArgumentError(f"{name} contains a NUL character; leave it out")
    return data


def _joined(value: Any, name: str) -> Any:
    """Joins a list, or the pairs of a dictionary, with commas as the library expects them.

    >>> _joined(["mha", "mla"], "mechanisms"), _joined([1e6, 500_000], "ladder"), _joined({"mla": 6e-3}, "rates")
    ('mha,mla', '1000000,500000', 'mla=0.006')
    """

    def spelled(part: Any, whose: str) -> str:
        if isinstance(part, numbers.Real) and not isinstance(part, bool):
            number = part if isinstance(part, int) else float(part)
            return str(int(number)) if isinstance(number, int) or number.is_integer() else repr(number)
        return os.fsdecode(to_bytes(part, whose))

    if isinstance(value, dict):
        return ",".join(f"{spelled(key, name)}={spelled(part, f'{name}[{key!r}]')}" for key, part in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(spelled(part, f"{name}[{i}]") for i, part in enumerate(value))
    return value


def _short_names(kind: Any) -> Dict[str, str]:
    """Returns the names of an enumeration's values without their common prefix: "bf16" for CH_PRECISION_BF16."""
    prefix = os.path.commonprefix(list(kind.relements))
    prefix = prefix[: prefix.rfind("_") + 1]
    return {full[len(prefix) :].lower(): full for full in kind.relements}


def events(kind: Any) -> Dict[str, Any]:
    """Returns the members of a callback's event by the event's name; empty for other types."""
    event = kind.args[0].item if kind.kind == "function" and kind.args and kind.args[0].kind == "pointer" else None
    members = dict(event.fields) if event is not None and event.kind == "struct" and event.fields else {}
    return dict(members["as"].type.fields) if "as" in members else {}


def choice(kind: Any, value: Any, name: str) -> int:
    """Returns a value of an enumeration, given its number or its name in lower case ("bf16" for CH_PRECISION_BF16)."""
    known = _short_names(kind)
    if isinstance(value, str):
        found = known.get(value.lower().replace("-", "_"))
        if found is None:
            raise ArgumentError(f"{name} is one of {', '.join(known)}, not {value!r}")
        return int(kind.relements[found])
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be one of {', '.join(known)}, not {type(value).__name__}")
    if value not in kind.elements:
        raise ArgumentError(f"{name} is one of {', '.join(known)}, not {value}")
    return value


def to_python(value: Any, kind: Any) -> Any:
    """Converts a C value to a number, a string or, for structures, a dataclass."""
    if kind.kind == "pointer":
        if kind.item.kind == "struct":
            return to_python(value[0], kind.item) if value else None
        return text(value)
    if kind.kind == "array":
        return text(value)
    if kind.kind != "struct":
        return value
    made = getattr(structs, "".join(part.capitalize() for part in kind.cname.split()[-1].split("_")[1:]))
    types = dict(kind.fields)
    return made(**{field: to_python(getattr(value, field), types[field].type) for field in made.__dataclass_fields__})


def documented(title: str) -> "Callable[[_Function], _Function]":
    """Adds the settings of a structure to the docstring of a function that accepts them as keywords."""

    def add(function: "_Function") -> "_Function":
        hints = getattr(structs, title).__annotations__
        meanings = structs.MEANINGS[title]
        lines = ["", "", "Settings, of which those left out or None keep their defaults:", ""]
        for keyword in hints:
            words = meanings.get(keyword[3:] if keyword.startswith("on_") else keyword, "")
            lines += textwrap.wrap(f"{keyword}: {words}", 110, initial_indent="  ", subsequent_indent="      ")
        function.__doc__ = textwrap.dedent("    " + (function.__doc__ or "")).rstrip() + "\n".join(lines) + "\n"
        return function

    return add


class Call:
    """A library call with a structure of settings. It keeps alive what the settings point to and what a callback raised."""

    def __init__(self, kind: str, defaults: Callable[[Any], Any], keywords: Dict[str, Any]) -> None:
        self.settings = ffi.new(kind + " *")
        defaults(self.settings)
        self.failure: Optional[BaseException] = None
        self._kept: List[Any] = []
        self._fields: Dict[str, Any] = {}
        self._parts: Dict[str, Any] = {}  # the structure that has the member: the settings, or a part of them
        self._events: Dict[str, Callable[..., Any]] = {}  # callbacks by the names of their events
        self._add_members(self.settings, ffi.typeof(kind))
        for name, value in keywords.items():
            if value is not None:
                self._set(name, value)
        # Ctrl-C: Python raises KeyboardInterrupt when it is called next, so the library must call it now and then.
        for name, answer in (("stop", False), ("progress", True)):
            if name in self._fields and not getattr(self._parts[name], name):
                self.on(name, lambda *_, answer=answer: answer)

    def _add_members(self, part: Any, kind: Any) -> None:
        for name, field in kind.fields:
            if field.type.kind == "struct":
                self._add_members(getattr(part, name), field.type)
                continue
            self._fields[name], self._parts[name] = field.type, part
            for event, union_member in events(field.type).items():
                self._fields[event], self._parts[event] = union_member.type, None

    def _is_call(self, kind: Any) -> bool:
        return kind.kind in ("function", "struct") and not events(kind)

    def _known(self, name: str) -> Tuple[str, Any, bool]:
        member = name[3:] if name.startswith("on_") else name
        kind = self._fields.get(member)
        is_call = kind is not None and self._is_call(kind)
        if kind is None or member in structs.HIDDEN or events(kind) or is_call != name.startswith("on_"):
            names = [n for n in self._names() if n]
            near = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; it is one of {', '.join(names)}"
            raise TypeError(f"there is no setting {name}{hint}")
        return member, kind, is_call

    def _names(self) -> List[str]:
        return [
            ("on_" if self._is_call(t) else "") + n
            for n, t in self._fields.items()
            if n not in structs.HIDDEN and not events(t)
        ]

    def _set(self, name: str, value: Any) -> None:
        member, kind, is_call = self._known(name)
        if is_call:
            if not callable(value):
                raise TypeError(f"{name} must be callable, not {type(value).__name__}")
            self.on(member, value)
        elif kind.kind == "enum":
            setattr(self._parts[member], member, choice(kind, value, name))
        elif kind.kind == "pointer" and kind.item.cname == "char":
            self.point(member, ffi.new("char[]", to_bytes(_joined(value, name), name)))
        elif kind.kind == "primitive":
            try:
                setattr(self._parts[member], member, value)
            except OverflowError as error:
                raise ArgumentError(f"{name} is out of range: {value}") from error
            except TypeError as error:
                raise TypeError(f"{name} must be a number, not {type(value).__name__}") from error
        else:
            raise TypeError(f"{name} cannot be set from Python")

    def point(self, member: str, value: Any) -> None:
        """Sets a pointer and keeps what it points to."""
        self._kept.append(value)
        setattr(self._parts[member], member, value)

    def _keep_failure(self, exception: Any, value: BaseException, traceback: Any) -> None:
        if self.failure is None:
            self.failure = value

    def on(self, member: str, function: Callable[..., Any]) -> None:
        """Registers `function` as a callback. Returning False or raising an exception ends the work."""
        kind = self._fields[member]
        if kind.kind == "function":
            self.point(member, self.callback(kind, function, ends=member == "stop"))
            return
        self._events[member] = function
        event = next(name for name, type_ in self._fields.items() if member in events(type_))
        if not getattr(self._parts[event], event):
            self.point(event, ffi.callback(self._fields[event], self._happened, error=False, onerror=self._keep_failure))

    def _happened(self, event: Any, _: Any) -> bool:
        """Calls the callback on_NAME for an event of this name, with the event's members."""
        if self.failure is not None:
            return False
        kinds = dict(ffi.typeof(event).item.fields)["kind"].type
        name = next(short for short, full in _short_names(kinds).items() if kinds.relements[full] == event.kind)
        if name not in self._events:
            return True
        said = getattr(getattr(event, "as"), name)
        return self._events[name](*[to_python(getattr(said, one), field.type) for one, field in ffi.typeof(said).fields]) is not False

    def callback(self, kind: Any, function: Callable[..., Any], ends: bool = False) -> Any:
        """Returns a C function of this kind that calls `function`. `ends` is the value that tells C to stop."""
        types = kind.args[:-1]

        def called(*values: Any) -> bool:
            if self.failure is not None:
                return ends
            answer = function(*[to_python(value, type_) for value, type_ in zip(values, types)])
            return bool(answer) if ends else answer is not False

        def called_void(*values: Any) -> None:
            if self.failure is None:
                function(*[to_python(value, type_) for value, type_ in zip(values, types)])

        if kind.result.kind == "void":
            return ffi.callback(kind, called_void, onerror=self._keep_failure)
        return ffi.callback(kind, called, error=ends, onerror=self._keep_failure)

    def done(self, status: int, error: Any) -> None:
        """Raises what a callback raised, otherwise the library's error."""
        self._kept.clear()
        failure, self.failure = self.failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure
        check(status, error)

    def json(self, function: Callable[..., int], *arguments: Any) -> str:
        """Calls function(*arguments, settings, &json, &error) and returns the JSON."""
        error, out = new_error(), ffi.new("char **")
        status = function(*arguments, self.settings, out, error)
        result = take(out[0]) if out[0] else ""
        self.done(status, error)
        return result
