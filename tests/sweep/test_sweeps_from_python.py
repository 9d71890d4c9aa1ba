"""Sweeps from Python: workers and resume with functions of the session, labels, medians, figures, tables."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from refused import refused

from netsim import load_sweep_results, run_sweep, simulate
from netsim.allocation import Problem, allocate
from netsim.analysis.seed_statistics import estimate
from netsim.analysis.sweep_statistics import SweepCase, labels
from netsim.report.sweep_figures import draw_sweep
from netsim.sweep.session_objects import fingerprint


def counted(problem: Problem) -> Any:
    counted.calls += 1      # type: ignore[attr-defined]
    return allocate(problem, "sao")


counted.calls = 0      # type: ignore[attr-defined]


def always_fails(problem: Problem) -> Any:
    raise ValueError("never")


def test_finished_points_of_session_functions_are_kept(tmp_path: Path) -> None:
    first = run_sweep("tiny", {"allocation": [counted]}, 2, tmp_path / "own")
    calls = counted.calls
    again = run_sweep("tiny", {"allocation": [counted]}, 3, tmp_path / "own")      # one more seed
    assert counted.calls - calls == calls / 2
    assert again.table["trace_sha256"].to_list()[:2] == first.table["trace_sha256"].to_list()
    assert again.table["allocation.method"].to_list() == ["session:counted"] * 3
    assert [case.label for case in again.cases] == ["counted"]


def made(factor: float) -> Any:
    def share(problem: Problem) -> Any:
        return allocate(problem, "sao" if factor > 1 else "equal")

    return share


def test_a_function_with_other_code_runs_again(tmp_path: Path) -> None:
    one, other = (run_sweep("tiny", {"allocation": [made(factor)]}, 1, tmp_path / "own").table["round_s"][0][0]
                  for factor in (2.0, 0.5))
    assert one < other


def helper() -> int:
    return 1


def calls_helper() -> int:
    return helper() + OFFSET


OFFSET = 3


class Base:
    rate = 1

    def go(self) -> int:
        return self.rate


def test_a_fingerprint_covers_what_a_function_uses_of_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(calls_helper)
    assert fingerprint(calls_helper) == before
    monkeypatch.setattr(sys.modules[__name__], "OFFSET", 4)
    changed = fingerprint(calls_helper)
    monkeypatch.setattr(sys.modules[__name__], "helper", lambda: 2)
    assert len({before, changed, fingerprint(calls_helper), fingerprint(made(1)), fingerprint(made(2)),
                fingerprint(partial(made, 1)), fingerprint(partial(made, 2)), fingerprint(Base)}) == 8
    was = fingerprint(Base)
    monkeypatch.setattr(Base, "rate", 2)
    assert fingerprint(Base) != was
    arrays = [np.arange(3), np.arange(3) + 1]
    assert len({fingerprint(partial(helper, array)) for array in arrays}) == 2


@pytest.mark.slow
def test_session_functions_run_in_workers(tmp_path: Path) -> None:
    def local(problem: Problem) -> Any:      # not importable by name
        return allocate(problem, "equal")

    told: list[Any] = []
    spread = run_sweep("tiny", {"allocation": ["equal", local]}, 2, tmp_path / "own", workers=2, progress=told.append)
    assert spread.summary["round_s"][0] == spread.summary["round_s"][1]
    assert (told[-1].finished, told[-1].total) == (4, 4)
    alone = run_sweep("tiny", {"allocation": ["equal", local]}, 2)
    assert alone.table["trace_sha256"].to_list() == spread.table["trace_sha256"].to_list()


def test_progress_is_told_while_points_run_in_this_process(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr("netsim.sweep.points.LOOK_EVERY_S", 0.0)
    told: list[Any] = []
    run_sweep("tiny", {}, 3, progress=told.append)
    assert {at.finished for at in told} >= {1, 2, 3}
    run_sweep("tiny", {}, 1, progress=True)
    assert "tiny: 1 of 1 point" in capsys.readouterr().err
    run_sweep("tiny", {}, 1)
    assert capsys.readouterr().err == ""


def test_a_sweep_in_which_all_points_failed_raises() -> None:
    with refused("your-code", "sweep tiny") as error:
        run_sweep("tiny", {"allocation": [always_fails]}, 2)
    assert "all 2 points" in str(error.value)
    assert "ValueError: never" in str(error.value)
    with refused("infeasible", "sweep tiny"):
        run_sweep("tiny", {"population.node.budget": ["1 uJ"]}, 1)


def test_cases_have_labels(tmp_path: Path) -> None:
    vary = [{"label": "ours", "allocation.method": "sao"}, {"label": "theirs", "allocation.method": "equal"}]
    found = run_sweep("tiny", vary, 2, tmp_path / "own")
    assert [case.label for case in found.cases] == ["ours", "theirs"]
    assert found.case("theirs").settings == {"allocation.method": "equal"}
    assert [case.label for case in load_sweep_results(tmp_path / "own").cases] == ["ours", "theirs"]
    assert labels([{"a.b": 1}, {"a.b": 2}], "tiny", ["x", "x"]) == ["x, b 1", "x, b 2"]
    with refused("wrong-type", "list.0.label"):
        run_sweep("tiny", [{"label": 3}])
    with refused("duplicate", "list"):
        run_sweep("tiny", [{"label": "a"}, {"label": "b"}])


def test_print_shows_the_table(tmp_path: Path) -> None:
    text = str(run_sweep("tiny", {"allocation.method": ["sao", "equal"]}, 3))
    assert "medians in brackets" in text
    assert "37.03 ms ± 0 s (37.03 ms)" in text
    assert max(map(len, text.splitlines())) <= 160


def test_medians_are_beside_means() -> None:
    found = estimate([1.0, 1.1, 0.9, 30.0])
    assert (found.mean, found.median) == (8.25, 1.05)
    table = run_sweep("tiny", {}, 3).summary
    assert table["round_s_median"].to_list() == pytest.approx(table["round_s"].to_list())


def test_tables_for_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    found, run = run_sweep("tiny", {}, 2), simulate("tiny")
    assert found.to_pandas().equals(pandas.DataFrame(found.table.to_dict(as_series=False)))
    assert list(found.to_pandas("summary").columns) == found.summary.columns
    assert run.to_pandas()["round_s"].tolist() == run.rounds["round_s"].to_list()
    assert len(run.to_pandas("jobs")) == run.jobs.height
    with refused("unknown-name", "to_pandas"):
        run.to_pandas("job")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with refused("needs", "to_pandas") as error:
        run.to_pandas()
    assert "pip install 'netsim[pandas]'" in str(error.value)


def learned(*speeds: float, label: str = "case") -> Any:
    """A sweep of one case per speed: 3 seeds, 10 rounds, accuracy up to 0.9 and above 1 in its interval."""
    cases = []
    for number, speed in enumerate(speeds):
        rows = {seed: {"round_accuracy": [0.1 + 0.09 * k * (1 - 0.3 * (seed == 2)) for k in range(10)],
                       "round_s": [speed] * 10, "round_energy_j": [2.0] * 10, "rounds": 10, "simulated_s": 10 * speed,
                       "energy_j": 20.0, "accuracy": 0.9, "compute_s": speed, "upload_s": 9 * speed, "wait_s": 0.0}
                for seed in range(3)}
        cases.append(SweepCase(f"{label} {number}", {}, rows, {}))
    best = [0.91, 0.91, 0.667]
    return SimpleNamespace(name="x", learns=True, cases=cases, common_target=0.6, best_accuracies=best)


def test_bands_are_not_clipped_and_lie_within_what_is_possible() -> None:
    axes = draw_sweep(learned(1.0), "accuracy-time").axes[0]
    low, high = axes.get_ylim()
    band = np.concatenate([path.vertices[:, 1] for path in axes.collections[0].get_paths()])
    assert band.min() >= 0
    assert band.max() <= 100
    assert low <= band.min()
    assert band.max() <= high


@pytest.mark.parametrize(("speeds", "scale"), [((1.0, 2.0), "linear"), ((1.0, 50.0), "log")])
@pytest.mark.parametrize("kind", ["accuracy-time", "round-time", "time-to-target"])
def test_an_axis_is_logarithmic_where_cases_are_far_apart(speeds, scale, kind) -> None:
    assert draw_sweep(learned(*speeds), kind).axes[0].get_xscale() == scale


def test_figures_to_a_target_by_hand() -> None:
    axes = draw_sweep(learned(1.0), "time-to-target", 0.6).axes[0]
    seeds, interval, median = (line.get_xdata() for line in axes.lines)
    assert list(seeds) == [7.0, 7.0, 9.0]                 # 0.1 + 0.09 k >= 0.6 for k = 6; with 0.7 of the slope, k = 8
    assert list(median) == [7.0]
    mean, half = estimate([7.0, 7.0, 9.0]).mean, estimate([7.0, 7.0, 9.0]).half
    assert list(interval) == pytest.approx([mean - half, mean + half])
    assert axes.get_xlabel() == "time to 60 % accuracy (s)"
    reached = draw_sweep(learned(1.0), "energy-to-target", 0.8).axes[0]
    assert "(2 of 3 seeds)" in reached.get_yticklabels()[0].get_text().replace("\n", " ")
    with refused("out-of-range", "target"):
        draw_sweep(learned(1.0), "energy-to-target", 0.99)
    with refused("no-effect", "target"):
        draw_sweep(learned(1.0), "energy", 0.9)


@pytest.mark.parametrize("kind", ["accuracy-time", "round-time", "time-to-target"])
def test_long_labels_stay_readable(kind) -> None:
    figure = draw_sweep(learned(1.0, 2.0, 3.0, label="a label that is far too long for a column of a paper"), kind)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    assert axes.get_window_extent().width > 0.35 * figure.bbox.width
    texts = [*axes.get_yticklabels(), *(axes.get_legend().get_texts() if axes.get_legend() else ())]
    assert all(figure.bbox.x0 <= text.get_window_extent().x0 for text in texts if text.get_text())
    assert all(text.get_window_extent().x1 <= figure.bbox.x1 for text in texts if text.get_text())
