"""The guide's examples run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from netsim import load_scenario, simulate

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "reading-a-trace.md"


def test_the_python_of_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = simulate(load_scenario("tiny"), "results/demo")
    found: dict[str, Any] = {}
    for example in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        exec(example, found)
    assert found["path"].length_s == run.summary["simulated_s"]
    assert found["lost"] == 0.0
    assert (tmp_path / "round-2.pdf").exists()


def test_what_the_guide_prints_is_what_the_command_prints() -> None:
    run = simulate(load_scenario("tiny"))
    for sentence in run.critical_path().advice():
        assert sentence in GUIDE.read_text()
