"""Fixtures for the selection methods: a cell to look at, and a random stream."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from selection_views import make_view

from netsim.selection import View


@pytest.fixture
def view() -> Callable[..., View]:
    return make_view


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(1)
