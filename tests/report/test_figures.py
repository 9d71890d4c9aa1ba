from __future__ import annotations

from pathlib import Path

import pytest
from explained_cells import planted_cell
from refused import refused
from small_runs import store, two_rounds

from netsim import load_scenario, simulate
from netsim.report.figures import FIGURES
from netsim.run import Run


@pytest.fixture
def two(tmp_path: Path) -> Run:
    return store(tmp_path / "two", *two_rounds(), rounds=2)


@pytest.mark.parametrize("kind", sorted(set(FIGURES) - {"gantt"}))
def test_figures_of_a_run_can_be_saved(two: Run, kind: str, tmp_path: Path) -> None:
    two.figure(kind).savefig(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size > 1000


def test_stacked_bars_are_as_high_as_the_rounds_are_long(two: Run) -> None:
    axes = two.figure("breakdown").axes[0]
    tops = [bar.get_y() + bar.get_height() for bar in axes.patches]
    assert max(tops) == 6.0
    assert sum(bar.get_height() for bar in axes.patches) == 11.0


def test_a_gantt_chart_outlines_whom_plans_made_anew_name(tmp_path: Path) -> None:
    text, device = planted_cell(1, "clock")
    (tmp_path / "cell.toml").write_text(text)
    run = simulate(load_scenario(str(tmp_path / "cell.toml")), tmp_path / "run", learning=False)
    axes = run.figure("gantt", round=1).axes[0]
    outlined = [bar for bar in axes.patches if bar.get_facecolor()[3] == 0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert [names[round(bar.get_y() + bar.get_height() / 2)] for bar in outlined] == [f"poor {device}"]
    assert outlined[0].get_width() == pytest.approx(1e3 * run.rounds["round_s"][0])       # it works all the time
    assert [text.get_text() for text in axes.get_legend().get_texts()][-1] == "limits the round"


def test_of_a_round_that_cannot_be_planned_again_the_critical_path_is_outlined(two: Run) -> None:
    axes = two.figure("gantt", round=2).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["phone 1", "phone 0"]
    outlined = [bar for bar in axes.patches if bar.get_facecolor()[3] == 0]
    assert [(bar.get_x(), bar.get_width()) for bar in outlined] == [(0.0, 2.0), (2.0, 3.0)]


def test_unknown_figures_and_rounds_are_refused(two: Run) -> None:
    with refused("unknown-name", "figure"):
        two.figure("gant", round=1)
    with refused("missing", "round"):
        two.figure("gantt")
    with refused("no-effect", "round"):
        two.figure("energy", round=1)
    with refused("out-of-range", "round"):
        two.figure("gantt", round=9)
