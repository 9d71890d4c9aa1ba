"""Every lesson runs from the first cell to the last, and asks its questions."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

pytest.importorskip("marimo", reason="no marimo here: the lessons are not run")

FOLDER = Path(__file__).parents[2] / "lessons"
LESSONS = sorted(FOLDER.glob("lesson_*.py"))


def outputs(path: Path) -> tuple[str, dict]:
    """What the cells show, as one text, and the names that they define."""
    shown, names = runpy.run_path(str(path))["app"].run()
    return "\n".join(output.text for output in shown if hasattr(output, "text")), dict(names)


def test_there_are_eight():
    assert [int(path.stem.split("_")[1]) for path in LESSONS] == list(range(1, 9))


@pytest.mark.slow
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_runs(path):
    shown, names = outputs(path)
    assert f"{path.stem.split('_')[1]}. " in shown
    assert "<marimo-slider" in shown
    assert "<svg" in shown
    assert shown.count("?&#92;u003c/span") == 3                       # the questions of the accordion
    assert "dropdown()" not in shown
    if "algorithm_5" in path.stem:
        literal, exact = (answer.plan for answer in names["at"](50).answers)
        assert exact.round_s < 0.9 * literal.round_s
    if "straggler" in path.stem:
        assert names["path"].causes["device_name"][0] == "sensor 12"
    if "in_time" in path.stem:
        fixed, turns = (answer.plan for answer in names["view"].answers)
        assert turns.round_s < fixed.round_s
        assert turns.energy_j < 0.7 * fixed.energy_j
    if "clusters" in path.stem:
        assert names["agreement"] > 0.6


def test_the_lab_page_runs():
    shown, names = outputs(FOLDER / "lab.py")
    assert all(f'data-round-s="{plan.round_s!r}"' in shown for plan in names["view"].plans)
    assert shown.count("<marimo-dropdown") == 2 + 1 + 1               # two methods, how the band is shared, a device
