"""Sweeps that end in answers: from Python, and read back from their folders."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from click.testing import Result
from refused import refused
from typer.testing import CliRunner

from netsim import load_sweep_results, run_sweep
from netsim.allocation import Problem, allocate
from netsim.analysis.sweep_statistics import SweepCase, labels
from netsim.cli import app
from netsim.report.sweep_figures import draw_sweep
from netsim.report.sweep_page import escaped, with_interval
from netsim.sweep.results import SweepResults

BANDS = {"cell.bandwidth": ["5 MHz", "10 MHz"], "allocation.method": ["sao", "equal"]}


@pytest.fixture(scope="module")
def tiny() -> SweepResults:
    return run_sweep("tiny", BANDS, seeds=range(2))


def fails_at_ten(problem: Problem) -> Any:
    if problem.bandwidth_hz > 6e6:
        raise ValueError("no more than 6 MHz & not \"one\" more")
    return allocate(problem, "equal")


def mine(problem: Problem) -> Any:
    return allocate(problem, "sao")


def test_cases_are_named_by_what_was_varied(tiny: SweepResults) -> None:
    assert [case.label for case in tiny.cases] == ["5 MHz, sao", "5 MHz, equal", "10 MHz, sao", "10 MHz, equal"]
    assert tiny.summary["case"].to_list() == [case.label for case in tiny.cases]
    # worked out by hand in the scenario file
    assert tiny.summary["round_s"].to_list()[:2] == pytest.approx([0.0370256, 0.0507526], rel=1e-5)
    assert tiny.table.height == 8


def test_labels_say_the_key_of_a_number_and_the_whole_key_where_values_are_alike() -> None:
    assert labels([{"end.rounds": 2}, {"a.method": "session:mine"}, {}], "tiny") == ["rounds 2", "mine", "tiny"]
    assert labels([{"a.b": "x"}, {"c.d": "x"}], "tiny") == ["a.b = x", "c.d = x"]


def test_differences_are_paired_against_the_chosen_case(tiny: SweepResults) -> None:
    found = tiny.differences("5 MHz, equal")
    assert found["round_s"][0] == pytest.approx(0.0370256 - 0.0507526, rel=1e-4)
    assert (found["round_s"][1], found["seeds"].to_list()) == (0.0, [2, 2, 2, 2])
    assert tiny.differences({"cell.bandwidth": "5 MHz", "allocation.method": "equal"}).equals(found)
    with refused("unknown-name", "case"):
        tiny.differences("5 MHz, equall")


def case(curves: dict[int, list[float | None]]) -> SweepCase:
    rows = {seed: {"round_accuracy": curve, "round_s": [1.0] * len(curve), "round_energy_j": [2.0] * len(curve)}
            for seed, curve in curves.items()}
    return SweepCase("case", {}, rows, {})


def test_time_and_energy_to_a_target_by_hand() -> None:
    learned = case({0: [0.1, None, 0.6, 0.5, 0.9], 1: [0.2, 0.3, 0.4, 0.7, 0.7], 2: [0.1]})
    reached = learned.reached(0.6)
    assert reached == {"rounds": {0: 3, 1: 4}, "time_s": {0: 3.0, 1: 4.0}, "energy_j": {0: 6.0, 1: 8.0}}
    assert learned.reached(0.95)["rounds"] == {}
    places, found = case({0: [0.1, None, 0.6], 1: [0.2, 0.3, 0.4]}).curve("energy") or pytest.fail("no curve")
    assert places.tolist() == [2.0, 4.0, 6.0]
    assert [one.mean for one in found] == pytest.approx([0.15, 0.2, 0.5])


@pytest.mark.slow
def test_objects_of_the_session_are_swept_over_and_what_fails_stays(tmp_path: Path) -> None:
    vary = {"cell.bandwidth": ["5 MHz", "10 MHz"], "allocation": [mine, fails_at_ten]}
    found = run_sweep("tiny", vary, 2, tmp_path / "own")
    assert [case.label for case in found.cases][:2] == ["5 MHz, mine", "5 MHz, fails_at_ten"]
    assert found.summary["round_s"][0] == pytest.approx(0.0370256, rel=1e-5)
    assert found.summary["failed"].to_list() == [0, 0, 0, 2]
    assert "no more than 6 MHz" in found.summary["reason"][3]
    assert found.summary["round_s"][3] is None
    assert "no more than 6 MHz" in found._repr_html_()
    text = Path(found.report()).read_text()
    assert "2 of 8 points failed" in text
    tex = (tmp_path / "own" / "tables" / "cases.tex").read_text()
    assert r"6 MHz \&" in tex
    assert r"fails\_at\_ten" in tex
    before = found.table["trace_sha256"].to_list()
    again = run_sweep("tiny", vary, 2, tmp_path / "own")      # anew: nobody knows whether they are still the same
    assert again.table["trace_sha256"].to_list() == before


@pytest.mark.parametrize(("call", "code", "key"), [
    (lambda: run_sweep("tiny", {"cell.bandwith": ["5 MHz"]}), "unknown-key", "cell.bandwith"),
    (lambda: run_sweep("tiny", {}, seeds=0), "out-of-range", "seeds"),
    (lambda: run_sweep("tiny", {"allocation": [mine, type("o", (), {"__call__": mine, "__name__": "mine"})()]}),
     "duplicate", "allocation"),
    (lambda: run_sweep("tiny", {}, alocation=mine), "unknown-option", "alocation"),
    (lambda: load_sweep_results("/nowhere"), "missing", "/nowhere"),
])
def test_a_mistake_gets_a_sentence(call: Any, code: str, key: str) -> None:
    with refused(code, key):
        call()


@pytest.mark.slow
def test_the_report_leaves_a_page_tables_and_figures(tiny: SweepResults, tmp_path: Path) -> None:
    page = tiny.report(tmp_path / "page.html", against="5 MHz, equal")
    assert "no such" not in page.read_text()
    rows = list(csv.DictReader((tmp_path / "tables" / "cases.csv").open()))
    assert [row["case"] for row in rows] == [case.label for case in tiny.cases]
    assert json.loads((tmp_path / "tables" / "differences.json").read_text())[1]["round_s"] == 0
    assert r"\begin{tabular}{lr" in (tmp_path / "tables" / "cases.tex").read_text()
    pictures = {path.name for path in (tmp_path / "figures").iterdir()}
    assert pictures == {f"{kind}.{ending}" for kind in ("round-time", "energy") for ending in ("png", "svg", "pdf")}
    pdf = (tmp_path / "figures" / "energy.pdf").read_bytes()
    assert b"/Type3" not in pdf
    assert b"/TrueType" in pdf or b"/Type0" in pdf      # Type 42
    first = {path.name: path.read_bytes() for path in (tmp_path / "figures").iterdir()}
    tiny.report(tmp_path / "page.html")
    assert {path.name: path.read_bytes() for path in (tmp_path / "figures").iterdir()} == first


def test_figures_are_a_column_wide_and_ask_for_what_there_is(tiny: SweepResults) -> None:
    figure = tiny.figure()
    assert figure.get_size_inches()[0] == pytest.approx(3.4)
    assert {text.get_fontsize() for text in figure.axes[0].get_xticklabels()} == {7}
    with refused("needs", "figure"):
        tiny.figure("accuracy-time")
    with refused("unknown-name", "figure"):
        tiny.figure("enrgy")


def test_an_axis_of_rounds_has_whole_numbers() -> None:
    twelve: list[float | None] = [0.05 * number for number in range(12)]
    learned: Any = SimpleNamespace(name="x", learns=True, cases=[case({0: twelve, 1: twelve})])
    ticks = draw_sweep(learned, "accuracy-rounds").axes[0].get_xticks()
    assert [tick % 1 for tick in ticks] == [0] * len(ticks)


def test_numbers_and_words_for_latex() -> None:
    assert with_interval(0.15234, 0.15534, 1e-3) == r"$152.3 \pm 3.0$"
    assert with_interval(1234.0, 1334.0, 1.0) == r"$1234 \pm 100$"
    assert escaped("a_b & 5 %") == r"a\_b \& 5 \%"


def call(*words: str) -> Result:
    return CliRunner().invoke(app, words, catch_exceptions=False)


@pytest.mark.slow
def test_commands_write_and_refuse_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pair.toml").write_text('scenario = "tiny"\nseeds = 2\n[grid]\nallocation.method = ["equal", "sao"]\n')
    done = call("sweep", "pair.toml", "--workers", "1", "--report", "--against", "sao")
    assert done.exit_code == 0, done.output
    folder = Path("results/sweeps/pair")
    assert "report.html; with the folders" in done.output
    assert '"against":1' in (folder / "report.html").read_text()
    again = call("report", str(folder))
    assert again.exit_code == 0, again.output
    assert '"against":0' in (folder / "report.html").read_text()
    assert load_sweep_results(folder).table.equals(pl.read_parquet(folder / "table.parquet"))
    run = next((folder / "runs").iterdir())
    for words, code, key in (
            (["report", str(folder), str(run)], "conflict", "sweeps/pair"),
            (["report", str(run), "--against", "x"], "needs", "--against"),
            (["report", str(folder), "--against", "saoo"], "unknown-name", "case"),
            (["sweep", "pair.toml", "--against", "sao"], "needs", "--against")):
        with refused(code, key):
            call(*words)
    (folder / "sweep.json").write_text("{}")
    with refused("damaged", "sweep.json"):
        call("report", str(folder))
