"""Refusals in tests: by code and key, not by their wording."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from netsim.base.errors import InputError


@contextmanager
def refused(code: str, key: str) -> Iterator[pytest.ExceptionInfo[InputError]]:
    """The block raises an InputError of this code, whose key holds these words."""
    with pytest.raises(InputError) as error:
        yield error
    assert (error.value.code, key in error.value.key) == (code, True), (error.value.code, str(error.value))
