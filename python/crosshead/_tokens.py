"""Token ids as arrays for the library."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosshead.errors import ArgumentError


def token_array(tokens: Any, dimensions: int = 0, *, empty: bool = False) -> NDArray[np.int32]:
    """Returns token ids as a contiguous int32 array, copied only if necessary.

    >>> token_array([1, 2]).dtype
    dtype('int32')
    """
    array = np.asarray(tokens)
    if array.size == 0 and empty:
        return np.zeros(0, np.int32)
    if array.size == 0:
        raise ArgumentError("no tokens were given; at least one is needed")
    if array.dtype.kind not in "iu":
        raise TypeError(f"tokens must be integers, not {array.dtype}")
    if array.ndim not in ((dimensions,) if dimensions else (1, 2)):
        wanted = f"{dimensions}" if dimensions else "1 or 2"
        raise ArgumentError(f"tokens must have {wanted} dimensions, not {array.ndim}")
    if array.dtype != np.int32:
        if array.min() < -(2**31) or array.max() >= 2**31:
            raise ArgumentError("a token id does not fit into 32 bits; ids are below the model's vocab_size")
        array = array.astype(np.int32)
    return np.ascontiguousarray(array)
