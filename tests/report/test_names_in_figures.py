"""Names of devices and cases are drawn as they stand: a dollar sign begins no formula."""

from pathlib import Path

import polars as pl
import pytest
from commands import commands

from netsim import load_run, load_scenario, simulate
from netsim.base.figures import as_it_stands, new_figure

NAMES = ["$", "$$", "$x^$", r"$\frac{1}{$", r"\$", r"a\$b$c_$", "$_{", "50 $ or 60 $", "^_{}\\", "%&#~"]


@pytest.mark.parametrize("name", NAMES)
def test_a_text_is_shown_as_it_stands(tmp_path: Path, name: str) -> None:
    figure = new_figure(2, 1)
    text = figure.text(0, 0, as_it_stands(name))
    figure.savefig(tmp_path / "x.svg", metadata={"Date": None})
    shown, is_math = text._preprocess_math(text.get_text())
    assert (shown, is_math) == (name, False)


def test_figures_of_a_run_with_such_devices(tmp_path: Path) -> None:
    rows = "".join(f'"{name}"\n' for name in NAMES)
    (tmp_path / "fleet.csv").write_text(f"name\n{rows}", encoding="utf-8")
    (tmp_path / "own.toml").write_text(
        'base = "tiny"\n[[population]]\nname = "node"\ndevices = "fleet.csv"\n[selection]\ncohort = 10\n',
        encoding="utf-8")
    scenario = load_scenario(tmp_path / "own.toml")
    simulate(scenario, tmp_path / "run", learning=False)
    run = load_run(tmp_path / "run")
    for kind, number in (("gantt", 1), ("breakdown", None), ("energy", None), ("band", None)):
        run.figure(kind, number).savefig(tmp_path / f"{kind}.svg")
    assert pl.Series(NAMES).is_in(run.devices["name"].implode()).all()
    done = commands().run(tmp_path, "allocate", "own.toml", "--set", "cell.bandwidth=1GHz", "--figure", "x.png")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_figures_of_a_sweep_with_such_cases(tmp_path: Path) -> None:
    for name in ("$x^$", "$_{"):
        (tmp_path / f"{name}.csv").write_text("name\na\nb\nc\n", encoding="utf-8")
    (tmp_path / "two.toml").write_text(
        'scenario = "base.toml"\nseeds = 1\nlearning = false\n[grid]\n'
        'population.node.devices = ["$x^$.csv", "$_{.csv"]\n', encoding="utf-8")
    (tmp_path / "base.toml").write_text(
        'base = "tiny"\n[[population]]\nname = "node"\ndevices = "$_{.csv"\n[selection]\ncohort = 3\n',
        encoding="utf-8")
    done = commands().run(tmp_path, "sweep", "two.toml", "--report", "--workers", "1")
    assert done.returncode == 0, done.stderr
