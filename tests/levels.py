"""Parameters of tests that `make quick` or `make test` leave out; CONTRIBUTING.md describes the three levels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow(cases: Iterable[Any]) -> list[Any]:
    """Mark these cases of a parameter as slow: `make quick` leaves them out."""
    return [pytest.param(case, marks=pytest.mark.slow) for case in cases]


def extended(cases: Iterable[Any]) -> list[Any]:
    """Mark these cases of a parameter as extended: only `make test-all` runs them."""
    return [pytest.param(case, marks=pytest.mark.extended) for case in cases]
