"""Two journeys from the first file to the last page, as scripts that a user could have written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from netsim import load_run, load_sweep_results

pytestmark = pytest.mark.extended
HERE = Path(__file__).parent


def run(script: str, folder: Path) -> str:
    """What a script of this folder prints, in a process of its own."""
    done = subprocess.run([sys.executable, HERE / script, folder], capture_output=True, text=True, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "140"})
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_study_with_own_channel_allocation_network_and_data(tmp_path) -> None:
    printed = run("study.py", tmp_path)
    assert "proportional to need" in printed
    found = load_sweep_results(tmp_path / "sweep")
    assert [case.label for case in found.cases] == ["proportional to need", "optimal", "equal shares"]
    assert [len(case.rows) for case in found.cases] == [5, 5, 5]
    rounds = found.summary["round_s"].to_list()
    assert rounds[1] < rounds[0] < rounds[2]                         # the optimum, then the own method
    assert found.summary["accuracy"].min() > 0.4                      # ten classes
    assert found.differences("equal shares")["round_s_high"][1] < 0   # more certain than chance
    for name in ("study.pdf", "to-target.pdf"):
        assert (tmp_path / name).read_bytes().startswith(b"%PDF")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "sweep" / "cells").iterdir()}
    run("study.py", tmp_path)                                         # again: all points are there
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "sweep" / "cells").iterdir()} == before


def test_a_night_of_two_thousand_phones(tmp_path) -> None:
    printed = run("night.py", tmp_path)
    assert "PX-" in printed
    night = load_run(tmp_path / "run")
    phones = pl.read_csv(tmp_path / "phones.csv")
    assert night.devices["name"].to_list() == phones["asset"].to_list()
    assert night.devices["battery_j"].to_list() == pytest.approx([3600 * wh for wh in phones["battery [Wh]"]])
    assert night.rounds["t0"].max() < 9 * 3600 <= night.rounds["t1"].max()
    on = pl.read_csv(tmp_path / "on-wifi.csv").join(
        pl.DataFrame({"device": night.devices["name"], "number": night.devices["device"]}), on="device")
    begun = night.jobs.select("device", clock=(pl.col("t0") + 21.5 * 3600) % 86_400)
    on_duty = begun.with_row_index("job").join(on, left_on="device", right_on="number").filter(
        pl.col("clock").is_between("on", "off"))
    assert on_duty["job"].n_unique() == night.jobs.height             # no phone works while its owner is away
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "<title>" in page
    assert sum(name in page for name in phones["asset"]) > 100
    assert "http://" not in page.replace("http://www.w3.org", "")     # one file, which works offline
