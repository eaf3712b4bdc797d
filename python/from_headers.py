"""Makes modules of the public headers: from_headers.py INCLUDE OUT

OUT/_cdef.py     what cffi knows of the libraries, and the number after .so in their names
OUT/structs.py   a dataclass for each structure that the libraries fill, and a TypedDict for each structure of settings
"""

import keyword
import os
import pathlib
import re
import sys

import cffi

# Members of settings that the package sets by itself.
HIDDEN = ("user", "stop", "out", "command", "cache_name")
NUMBERS = {"float": "float", "double": "float", "_Bool": "bool"}


def declarations(include: pathlib.Path) -> str:
    """The headers' text in the order in which they include each other, without what only the preprocessor reads."""
    seen: list = []
    parts: list = []

    def add(name: str) -> None:
        if name in seen:
            return
        seen.append(name)
        text = (include / name).read_text(encoding="utf-8")
        for other in re.findall(r"^#include <(crosshead/[^>]+)>", text, re.M):
            add(other)
        text = re.sub(r'^extern "C" \{\n#endif\n', "", text, flags=re.M)
        text = re.sub(r"^#ifdef __cplusplus\n(\}\n#endif\n)?", "", text, flags=re.M)
        text = re.sub(r"^#(.*\\\n)*.*\n", "", text, flags=re.M)
        parts.append(re.sub(r"\bCH_API\b", "", text))

    add("crosshead/crosshead.h")
    add("crosshead/crosshead_train.h")
    return "\n".join(parts)


def python_name(name: str) -> str:
    """ch_train_step: TrainStep"""
    return "".join(part.capitalize() for part in name.split("_")[1:])


def is_text(kind) -> bool:
    return kind.kind == "pointer" and kind.item.kind == "primitive" and kind.item.cname == "char"


def leaves(kind) -> "list":
    """The members of a structure of settings, with those of its parts, which are structures too."""
    found: list = []
    for name, member in kind.fields:
        found.extend(leaves(member.type) if member.type.kind == "struct" else [(name, member)])
    return found


def parts_of_settings(ffi: cffi.FFI) -> "set":
    """The names of the structures that settings are made of."""
    whole = [ffi.typeof(name) for name in ffi.list_types()[0] if name.endswith("_settings")]
    return {member.type.cname.split()[-1] for kind in whole for _, member in kind.fields if member.type.kind == "struct"}


def events(kind) -> "dict":
    """What a callback's event can be, by name; empty for a callback that gets no event."""
    event = kind.args[0].item if kind.args and kind.args[0].kind == "pointer" else None
    members = dict(event.fields) if event is not None and event.kind == "struct" else {}
    return dict(members["as"].type.fields) if "as" in members else {}


def field_type(kind, settings: bool) -> "str | None":
    """The Python type of a member; None for one that Python does not get."""
    if kind.kind == "primitive":
        return NUMBERS.get(kind.cname, "int")
    if kind.kind == "enum":
        return "Union[int, str]" if settings else "int"
    if is_text(kind):
        return "Texts" if settings else "Optional[str]"
    if kind.kind == "array" and kind.item.cname == "char":
        return None if settings else "str"
    if kind.kind == "struct" and not settings:
        return python_name(kind.cname.split()[-1])
    if settings and kind.kind == "function":
        return "Callable[..., object]"
    return None


def sentence(comment: str) -> str:
    """The words of a C comment on one line."""
    return " ".join(line.strip().removeprefix("*").strip() for line in comment[2:-2].splitlines()).strip()


def enumerators(ffi: cffi.FFI) -> "dict[str, str]":
    """CH_MATCH_CACHE: '"cache"', as the package takes it."""
    known = {}
    for name in ffi.list_types()[0]:
        kind = ffi.typeof(name)
        if kind.kind != "enum" or len(kind.relements) < 2:
            continue
        prefix = os.path.commonprefix(list(kind.relements))
        prefix = prefix[: prefix.rfind("_") + 1]
        known.update({full: f'"{full[len(prefix):].lower()}"' for full in kind.relements})
    return known


def meanings(text: str, ffi: cffi.FFI) -> "dict[str, dict[str, str]]":
    """What the comments of each structure of settings say of its members: behind a member, or above it."""
    known = enumerators(ffi)
    sinks = {name: sentence(comment) for comment, name in re.findall(r"(/\*(?:[^*]|\*(?!/))*\*/)\ntypedef [^;/]*\(\*(\w+)\)\(", text)}

    def in_python(words: str) -> str:
        words = re.sub(r"\bCH_[A-Z0-9_]+\b", lambda found: known.get(found[0], found[0]), words)
        return words.replace("NULL", "None").replace("settings->", "")

    found: dict = {}
    whole = [name for name in ffi.list_types()[0] if name.endswith("_settings")]
    parts = parts_of_settings(ffi)
    for body, name in re.findall(r"typedef struct \w+ \{\n((?:(?!\n\}).)*)\n\} (ch_\w+);", text, re.S):
        if name not in whole and name not in parts:
            continue
        members = found.setdefault(name, {})
        above, names, line_ended, inherited = "", [], True, ""
        for part in re.finditer(r"(/\*.*?\*/)|([^;/]+;)", body, re.S):
            comment, declared = part.group(1), part.group(2)
            if declared:
                names = re.findall(r"(\w+)\s*(?=[,;])", declared)
                kind = declared.split()[0]
                words = above or sinks.get(kind, "") or (inherited if names and not line_ended else "")
                inherited = words
                members.update({one: in_python(words) for one in names})
                above, line_ended = "", False
            elif names and not line_ended and "\n" not in body[body.rfind(";", 0, part.start()) : part.start()]:
                if not sinks.get(body[: part.start()].rsplit("\n", 1)[-1].split()[0], ""):
                    members.update({one: in_python(sentence(comment)) for one in names})
                line_ended = True
            else:
                above = sentence(comment)
        for field, member in ffi.typeof(name).fields:
            if member.type.kind == "enum":
                choices = " or ".join(", ".join(known.get(one, one) for _, one in sorted(member.type.elements.items())).rsplit(", ", 1))
                members[field] = "; ".join(filter(None, [choices, members.get(field)]))
            elif member.type.kind == "function":
                prefix = os.path.commonprefix(list(ffi.typeof(name[: -len("settings")] + "event_kind").relements)) if events(member.type) else ""
                for event in events(member.type):
                    comment = re.search(rf"\b{prefix}{event.upper()} = \d+,? +/\* (.*?) \*/", text)
                    members[event] = in_python(comment[1]) if comment else ""
    flat: dict = {}
    for name in (one for one in found if one in whole):
        flat[python_name(name)] = {}
        for field, member in ffi.typeof(name).fields:
            inner = found.get(member.type.cname.split()[-1]) if member.type.kind == "struct" else None
            own_names = member.type.kind == "function" and events(member.type) or [field]
            own = {one: found[name][one] for one in own_names if one in found[name]}
            flat[python_name(name)].update(own if inner is None else inner)
    return flat


def structs(ffi: cffi.FFI, told: "dict[str, dict[str, str]]") -> str:
    lines = [
        '"""The structures of Crosshead\'s headers: made of them by from_headers.py."""',
        "",
        "import os",
        "from dataclasses import dataclass",
        "from typing import Callable, Mapping, Optional, Sequence, TypedDict, Union",
        "",
        'Text = Union[str, "os.PathLike[str]"]',
        "Texts = Union[Text, Sequence[Union[Text, float]], Mapping[str, Union[Text, float]]]",
        f"HIDDEN = {HIDDEN}",
    ]
    made: list = []
    parts = parts_of_settings(ffi)

    def add(name: str) -> None:
        kind = ffi.typeof(name)
        if name in made or name in parts or name.endswith("_event") or kind.kind != "struct" or not kind.fields:
            return
        made.append(name)
        settings = name.endswith("_settings")
        members = []
        for field, member in leaves(kind) if settings else kind.fields:
            if member.type.kind == "struct":
                add(member.type.cname.split()[-1])
            if settings and member.type.kind == "function" and events(member.type):
                members.extend(f"    on_{event}: Callable[..., object]" for event in events(member.type))
                continue
            hint = field_type(member.type, settings)
            if hint is None or (settings and field in HIDDEN) or keyword.iskeyword(field):
                continue
            is_call = settings and hint.startswith("Callable")
            members.append(f"    {'on_' if is_call else ''}{field}: {hint}")
        title = python_name(name)
        if not members:
            return
        lines.extend(["", ""])
        if settings:
            lines.extend([f"class {title}(TypedDict, total=False):", f'    """Keywords of {name}."""', ""])
        else:
            lines.extend(["@dataclass(frozen=True)", f"class {title}:", f'    """{name}"""', ""])
        lines.extend(members)

    for name in ffi.list_types()[0]:
        add(name)
    lines.extend(["", "#: What settings mean, by structure and member.", "MEANINGS = {"])
    for title, members in told.items():
        lines.append(f"    {title!r}: {{")
        lines.extend(f"        {member!r}: {words!r}," for member, words in members.items() if member not in HIDDEN)
        lines.append("    },")
    lines.append("}")
    return "\n".join(lines) + "\n"


def main() -> None:
    include, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    ffi = cffi.FFI()
    ffi.set_source("crosshead._cdef", None)
    text = declarations(include)
    ffi.cdef(text)
    ffi.emit_python_code(str(out / "_cdef.py"))
    version = (include / "crosshead/version.h").read_text(encoding="utf-8")
    number = re.findall(r'CH_VERSION_STRING "(\d+\.\d+)', version)[0]
    with open(out / "_cdef.py", "a", encoding="utf-8") as file:
        file.write(f'soname = "{number}"\n')
    (out / "structs.py").write_text(structs(ffi, meanings(text, ffi)), encoding="utf-8")


if __name__ == "__main__":
    main()
