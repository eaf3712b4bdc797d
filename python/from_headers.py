"""Makes modules of the public headers: from_headers.py INCLUDE OUT

OUT/_cdef.py     what cffi knows of the libraries, and the number after .so in their names
OUT/structs.py   a dataclass for each structure that the libraries fill, and a TypedDict for each structure of settings
"""

import keyword
import pathlib
import re
import sys

import cffi

# Members of settings that the package sets by itself.
HIDDEN = ("user", "stop", "out", "option_names", "command", "cache_name")
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
    add("crosshead/making.h")
    return "\n".join(parts)


def python_name(name: str) -> str:
    """ch_train_step: TrainStep"""
    return "".join(part.capitalize() for part in name.split("_")[1:])


def is_text(kind) -> bool:
    return kind.kind == "pointer" and kind.item.kind == "primitive" and kind.item.cname == "char"


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


def structs(ffi: cffi.FFI) -> str:
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

    def add(name: str) -> None:
        kind = ffi.typeof(name)
        if name in made or kind.kind != "struct" or not kind.fields:
            return
        made.append(name)
        settings = name.endswith("_settings")
        members = []
        for field, member in kind.fields:
            if member.type.kind == "struct":
                add(member.type.cname.split()[-1])
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
    return "\n".join(lines) + "\n"


def main() -> None:
    include, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    ffi = cffi.FFI()
    ffi.set_source("crosshead._cdef", None)
    ffi.cdef(declarations(include))
    ffi.emit_python_code(str(out / "_cdef.py"))
    version = (include / "crosshead/version.h").read_text(encoding="utf-8")
    number = re.findall(r'CH_VERSION_STRING "(\d+\.\d+)', version)[0]
    with open(out / "_cdef.py", "a", encoding="utf-8") as file:
        file.write(f'soname = "{number}"\n')
    (out / "structs.py").write_text(structs(ffi), encoding="utf-8")


if __name__ == "__main__":
    main()
