"""What a refusal must say: its code, and the key or the file that is at fault."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from netsim import InputError


@contextmanager
def refused(code: str, key: str) -> Iterator[None]:
    """The block raises an InputError of this code; ``key`` is its key, or the end of it where that is a path."""
    with pytest.raises(InputError) as caught:
        yield
    error = caught.value
    assert (error.code, error.key[-len(key):] if key else error.key) == (code, key), str(error)
