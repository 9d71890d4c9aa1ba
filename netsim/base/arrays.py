"""The array types that the modules pass to each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]     # SI values, one for each device
Ints = NDArray[np.int64]         # device or sample numbers
Bools = NDArray[np.bool_]
Weights = NDArray[np.float32]    # a flat model, or one row for each device
State = dict[str, NDArray[Any]]  # named arrays, as a checkpoint stores them


def as_floats(answer: Any) -> Floats:
    """What a user's code returned, as an array; an empty one where it is no numbers."""
    try:
        return np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError):
        return np.zeros(0)


def frozen(values: Any, dtype: Any = np.float64) -> NDArray[Any]:
    """A read-only array that shares no memory with ``values``."""
    return read_only(np.array(values, dtype=dtype))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The array itself, from now on read-only."""
    array.flags.writeable = False
    return array
