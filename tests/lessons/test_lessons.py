"""Every lesson runs from the first cell to the last, and asks its questions."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

pytest.importorskip("marimo", reason="no marimo here: the lessons are not run")

FOLDER = Path(__file__).parents[2] / "lessons"
LESSONS = sorted(FOLDER.glob("lesson_*.py"), key=lambda path: int(path.stem.split("_")[1]))


def outputs(path: Path) -> tuple[str, dict]:
    """What the cells show, as one text, and the names that they define."""
    shown, names = runpy.run_path(str(path))["app"].run()
    return "\n".join(output.text for output in shown if hasattr(output, "text")), dict(names)


def test_there_are_eleven():
    assert [int(path.stem.split("_")[1]) for path in LESSONS] == list(range(1, 12))


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
        assert round(1e3 * names["explained"].whole.what_if[0].saves_s) == 833           # as the first answer says
    if "in_time" in path.stem:
        fixed, turns = (answer.plan for answer in names["view"].answers)
        assert turns.round_s < fixed.round_s
        assert turns.energy_j < 0.7 * fixed.energy_j
    if "waiting" in path.stem:
        waits, comes = names["found"].values()
        assert comes["updates a second"] > 2 * waits["updates a second"]
        assert waits["most deliveries of a device"] == waits["fewest"]
        assert comes["most deliveries of a device"] > 3 * comes["fewest"]
        assert comes["staleness, on average"] == pytest.approx(9 / 5, abs=0.1)
    if "clusters" in path.stem:
        assert names["agreement"] > 0.6
    if "stale" in path.stem:
        now, mean = (dict(zip(names["times_ms"], names["medians"][which], strict=True)) for which in ("now", "mean"))
        assert all(mean[ms] < now[ms] for ms in (3, 10, 30))         # below about 100 ms the mean is the better advice
        assert now[300] < mean[300]
        assert all(answer.plan.over_budget.sum() >= 5 for answer in names["view"].answers)
    if "who_is_there" in path.stem:
        assert (round(names["took_s"], 1), round(names["still_s"], 1), names["dropped"]) == (44.9, 10.8, 0)


def test_a_deadline_among_those_who_go(tmp_path):
    """What lesson 11 says of it, in words and in figures."""
    source = next(path for path in LESSONS if "who_is_there" in path.stem).read_text(encoding="utf-8")
    lesson = tmp_path / "hurried.py"
    lesson.write_text(source.replace("3000], 0)", "3000], 200)"), encoding="utf-8")
    _, names = outputs(lesson)
    assert (round(names["took_s"], 1), names["dropped"], names["arrived"]) == (12.0, 24, 776)
    for figure in ("44.9 s instead of 10.8", "The run takes 12.0 s, and 24 of 800 updates are lost"):
        assert figure in " ".join(source.split())


@pytest.mark.slow
def test_all_end_together_and_yet_the_sensor_sets_the_pace(tmp_path):
    """What lesson 4 says of SAO, in words and in figures."""
    straggler = next(path for path in LESSONS if "straggler" in path.stem)
    source = straggler.read_text(encoding="utf-8").replace('value="equal"', 'value="sao"')
    took = []
    for clock in ("0.3", "0.8"):
        lesson = tmp_path / f"at_{clock.replace('.', '_')}.py"
        lesson.write_text(source.replace("2.0], 0.3)", f"2.0], {clock})"), encoding="utf-8")
        shown, names = outputs(lesson)
        took.append(round(1e3 * names["path"].length_s))
        first = names["explained"].whole.what_if[0]
        assert (first.device, first.key) == (12, "cpu_max")
        assert "the next per cent of sensor 12's clock shortens this round by" in shown
        assert "save at most" not in shown
    assert took == [2207, 1168]
    for figure in ("333 of the 336 ms of round 5", "3.3 ms shorter", "1168 ms instead of 2207"):
        assert figure in " ".join(source.split())


@pytest.mark.slow
def test_who_need_not_hurry_takes_a_fraction_of_the_energy(tmp_path):
    """What lesson 9 says of widely spread work."""
    waiting = next(path for path in LESSONS if "waiting" in path.stem)
    source = waiting.read_text(encoding="utf-8").replace("20, 30], 3)", "20, 30], 30)")
    spent = {}
    for allocation in ("sao", "tdma"):
        lesson = tmp_path / f"by_{allocation}.py"
        lesson.write_text(source.replace('value="sao"', f'value="{allocation}"'), encoding="utf-8")
        waits, comes = outputs(lesson)[1]["found"].values()
        spent[allocation] = waits["mJ an update"] / comes["mJ an update"]
    assert spent["tdma"] < 0.4
    assert spent["sao"] > 1.2


def test_the_lab_page_runs():
    shown, names = outputs(FOLDER / "lab.py")
    assert all(f'data-round-s="{plan.round_s!r}"' in shown for plan in names["view"].plans)
    assert shown.count("<marimo-dropdown") == 2 + 1 + 1               # two methods, how the band is shared, a device
