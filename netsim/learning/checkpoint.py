"""Named arrays in one file that is either whole or not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from netsim.base.arrays import State
from netsim.base.errors import InputError
from netsim.base.files import MEGABYTE, open_to_read, packed, replace_file

MOST_BYTES = 20_000 * MEGABYTE


def save_state(path: str | Path, state: State) -> None:
    """Writes the arrays; a crash at any moment leaves the old file or the new one."""
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in state.items()}
    replace_file(Path(path), packed(lambda file: torch.save(tensors, file)))


def load_state(path: str | Path) -> State:
    """The arrays that ``save_state`` wrote; only tensors are read, never code."""
    try:
        with open_to_read(Path(path), "a checkpoint", MOST_BYTES) as file:
            tensors = torch.load(file, weights_only=True, map_location="cpu")
    except Exception as error:      # a file that is something else fails in all sorts of ways
        reason = str(error).partition("\n")[0]      # torch goes on with advice that does not fit here
        raise InputError("unreadable", str(path), f"{type(error).__name__}: {reason}", "named arrays") from error
    if not isinstance(tensors, dict) or not all(isinstance(value, torch.Tensor) for value in tensors.values()):
        raise InputError("malformed", str(path), type(tensors).__name__, "named arrays")
    try:
        return {str(name): value.numpy() for name, value in tensors.items()}
    except (TypeError, RuntimeError) as error:
        raise InputError("malformed", str(path), str(error), "plain arrays") from error
