"""Small runs to take apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from small_runs import store, two_rounds

from netsim.run import Run
from netsim.trace.recorder import Recorder


@pytest.fixture
def two(tmp_path: Path) -> Run:
    """The run of ``two_rounds``."""
    return store(tmp_path / "two", *two_rounds(), rounds=2)


@pytest.fixture
def record(tmp_path: Path) -> Callable[[Callable[[Recorder], None]], Run]:
    """Turns a function that records one round into a run."""
    def make(play: Callable[[Recorder], None]) -> Run:
        recorder = Recorder()
        play(recorder)
        return store(tmp_path / "made", (1, recorder.take()), rounds=1)
    return make
