from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from small_runs import say, sign, store, two_rounds

from netsim.base.errors import InputError
from netsim.report import run_data
from netsim.report.comparison_data import labels_of
from netsim.report.page import write_report
from netsim.run import Run


@pytest.fixture
def two(tmp_path: Path) -> Run:
    return store(tmp_path / "two", *two_rounds(), rounds=2)


def data_of(page: Path) -> dict[str, Any]:
    """What the page's script reads."""
    found = re.findall(r'<script type="application/json" id="data-(\w+)">(.*?)</script>', page.read_text(), re.DOTALL)
    return {name: json.loads(text) for name, text in found}


def test_the_page_holds_the_breakdown_to_the_last_digit(two: Run, tmp_path: Path) -> None:
    write_report([two], tmp_path / "page.html")
    data = data_of(tmp_path / "page.html")
    breakdown = two.breakdown()
    assert data["breakdown"]["totals"] == breakdown.totals
    assert data["breakdown"]["rounds"] == breakdown.rounds.to_dict(as_series=False)
    assert data["breakdown"]["devices"] == breakdown.devices.to_dict(as_series=False)
    assert data["path"]["length_s"] == two.critical_path().length_s
    assert data["gantt"]["order"] == {"1": [0, 1], "2": [1, 0]}
    assert data["batteries"]["lines"][0]["y"] == pytest.approx([1.0, 0.8, 0.7, 0.575])
    assert data["notes"] == {}


def test_the_page_asks_for_nothing_outside_itself(two: Run, tmp_path: Path) -> None:
    write_report([two], tmp_path / "page.html")
    page = tmp_path / "page.html"
    without_scripts = re.sub(r"<script>.*?</script>", "", page.read_text(), flags=re.DOTALL)
    assert not re.search(r"(src|href)\s*=|@import|url\(", without_scripts)
    assert "default-src 'none'" in without_scripts


def test_a_strangers_names_stay_text(two: Run, tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    say(two.path, scenario=evil, seed=evil, status="finished")
    devices = pl.read_parquet(two.path / "devices.parquet")
    devices.with_columns(name=pl.lit(evil), kind=pl.lit(evil)).write_parquet(two.path / "devices.parquet")
    text = (two.path / "scenario.toml").read_text()
    (two.path / "scenario.toml").write_text(text.replace("two devices", evil))
    sign(two.path)
    write_report([Run(two.path)], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<script>alert" not in page
    assert "<img" not in page
    assert data_of(tmp_path / "page.html")["gantt"]["names"]["0"] == evil


def test_a_large_run_is_sampled_and_the_page_says_so(
    two: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_data, "MOST_DEVICES", 2)
    monkeypatch.setattr(run_data, "MOST_ROWS", 1)
    monkeypatch.setattr(run_data, "MOST_POINTS", 4)
    monkeypatch.setattr(run_data, "MOST_BATTERIES", 1)
    data = run_data.run_data(two)
    assert data["notes"]["map"] == "Shows 2 of 3 devices, evenly picked."
    assert data["notes"]["batteries"] == "Shows 1 of 2 devices, those that used most of their battery."
    assert data["notes"]["gantt"] == "Of a round, the 1 devices that waited least."
    assert data["gantt"]["order"] == {"1": [0], "2": [1]}
    # 0.25 MHz s in the second, 0.75 in the third and 3 times 0.5 after: 2.5 MHz s in one window of 11 s
    assert data["band"]["hz"][0] == pytest.approx(2.5e6 / 11)


def test_an_interrupted_run_is_shown_as_one(two: Run, tmp_path: Path) -> None:
    say(two.path, status="running")
    write_report([Run(two.path)], tmp_path / "page.html")
    assert "interrupted after round 2" in (tmp_path / "page.html").read_text()


def test_runs_of_one_world_are_compared_and_others_marked(two: Run, tmp_path: Path) -> None:
    other = store(tmp_path / "elsewhere" / "two", *two_rounds(), rounds=2)
    write_report([two, other], tmp_path / "page.html")
    assert "do not share one world" not in (tmp_path / "page.html").read_text()
    assert [run["totals"] for run in data_of(tmp_path / "page.html")["runs"]] == [two.breakdown().totals] * 2
    devices = pl.read_parquet(other.path / "devices.parquet")
    devices.with_columns(gain=pl.col("gain") * 2).write_parquet(other.path / "devices.parquet")
    sign(other.path)
    write_report([two, Run(other.path)], tmp_path / "page.html")
    assert "do not share one world" in (tmp_path / "page.html").read_text()


def test_labels_take_as_much_of_the_path_as_tells_runs_apart(two: Run, tmp_path: Path) -> None:
    other = store(tmp_path / "elsewhere" / "two", *two_rounds(), rounds=2)
    assert labels_of([two, other]) == [f"{tmp_path.name}/two", "elsewhere/two"]
    assert len(set(labels_of([two, two]))) == 2


def test_a_path_that_cannot_be_written_is_an_input_error(two: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_report([two], tmp_path / "missing" / "page.html")
