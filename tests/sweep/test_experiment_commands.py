"""`netsim sweep` and `netsim reproduce` as a user calls them."""

import inspect
import re
from pathlib import Path

import polars as pl
import pytest
from refused import refused
from typer.testing import CliRunner

from netsim.cli import app
from netsim.cli.experiments import reproduce, sweep
from netsim.executors.factory import ExecutorFactory
from netsim.executors.workers import InProcess
from netsim.paper.reproduce import TARGETS
from netsim.sweep import points as cells


@pytest.mark.slow
def test_a_sweep_runs_shows_its_status_and_reports_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("few.toml").write_text('scenario = "tiny"\nseeds = 2\nlearning = false\n[set]\nend.rounds = 1\n')
    before = CliRunner().invoke(app, ["sweep", "few.toml", "--status"])
    assert before.exit_code == 0
    assert "waiting" in before.output
    assert not Path("results").exists()
    done = CliRunner().invoke(app, ["sweep", "few.toml", "--workers", "1"])
    assert done.exit_code == 0, done.output
    assert "results: results/sweeps/few/table.parquet" in done.output
    assert len(pl.read_parquet("results/sweeps/few/table.parquet")) == 2
    next(Path("results/sweeps/few/cells").iterdir()).unlink()
    for other in Path("results/sweeps/few/runs").iterdir():
        (other / "summary.json").write_text("{")            # somebody damaged the runs
    failed = CliRunner().invoke(app, ["sweep", "few.toml", "--workers", "1"])
    assert failed.exit_code == 1
    assert "failed: tiny, seed " in failed.output


def test_a_dataset_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with refused("unknown-name", "--dataset"):
        CliRunner().invoke(app, ["reproduce", "fig5", "--quick", "--dataset", "mnist"], catch_exceptions=False)
    assert not Path("results").exists()


def test_where_nothing_is_stored_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["reproduce", "fig10", "--stored"], catch_exceptions=False)
    assert "nothing is stored to draw it from" in done.output
    assert done.exit_code == 0
    assert not Path("results").exists()


@pytest.mark.slow
def test_cells_that_fail_show_in_the_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_luck(*_: object) -> None:
        raise ValueError("out of luck")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cells, "run_point", out_of_luck)
    monkeypatch.setattr("netsim.executors.factory.place_for", lambda *_: ExecutorFactory(InProcess, at_once=1))
    done = CliRunner().invoke(app, ["reproduce", "fig12", "--quick"])
    assert "out of luck" in done.output
    assert done.exit_code == 1
    assert CliRunner().invoke(app, ["reproduce", "table2", "--quick"]).exit_code == 0


def test_the_help_shows_a_sweep_file_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    paragraphs = inspect.cleandoc(sweep.__doc__ or "").split("\n\n")
    Path("shown.toml").write_text(paragraphs[2])
    shown = CliRunner().invoke(app, ["sweep", "shown.toml", "--status"], catch_exceptions=False)
    assert "60" in shown.output            # three methods, two bands, ten seeds


def test_the_help_names_every_target() -> None:
    text = inspect.cleandoc(reproduce.__doc__ or "").split("\n\n")[-1]
    assert sorted(re.findall(r"(?:fig|table|theorem)\d+|choices", text)) == sorted(TARGETS)
