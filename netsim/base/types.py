"""Array types of the package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]     # SI values, one for each device
Ints = NDArray[np.int64]         # device or sample numbers
Bools = NDArray[np.bool_]
Weights = NDArray[np.float32]    # a flat model, or one row for each device
State = dict[str, NDArray[Any]]  # named arrays, as a checkpoint stores them


def as_floats(answer: Any) -> Floats:
    """Convert a value returned by user code to an array; return an empty array if it holds no numbers."""
    try:
        return np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError):
        return np.zeros(0)


def frozen(values: Any, dtype: Any = np.float64) -> NDArray[Any]:
    """Return a read-only copy as an array."""
    return read_only(np.array(values, dtype=dtype))


def constant(value: Any, size: int, dtype: Any = np.float64) -> NDArray[Any]:
    """Return a read-only array of shape (size,) with one value, which takes no memory."""
    return read_only(np.broadcast_to(read_only(np.array(value, dtype)), size))


def joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return arrays as one array; a single one is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
