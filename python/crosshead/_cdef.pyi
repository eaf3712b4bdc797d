"""What from_headers.py makes of the public headers."""

from typing import Any

ffi: Any
soname: str
