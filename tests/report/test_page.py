from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from explained_cells import planted_cell
from refused import refused
from small_runs import say, sign, store, two_rounds

from netsim import load_scenario, simulate
from netsim.analysis import bottleneck
from netsim.analysis.export import export
from netsim.report import gantt_data, run_data
from netsim.report.comparison_data import changed_keys, comparison_data, labels_of
from netsim.report.page import SCRIPTS, write_report
from netsim.run import Run

REPORT = Path(run_data.__file__).parent


@pytest.fixture
def two(tmp_path: Path) -> Run:
    return store(tmp_path / "two", *two_rounds(), rounds=2)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two rounds of a cell whose last device has a slow clock: all end together, and yet it sets the pace."""
    folder = tmp_path_factory.mktemp("planted")
    text, device = planted_cell(1, "clock")
    (folder / "cell.toml").write_text(text)
    return simulate(load_scenario(str(folder / "cell.toml")), folder / f"device-{device}", learning=False)


def data_of(page: Path) -> dict[str, Any]:
    """What the page's script reads."""
    found = re.findall(r'<script type="application/json" id="data-(\w+)">(.*?)</script>', page.read_text(), re.DOTALL)
    return {name: json.loads(text) for name, text in found}


def test_the_page_holds_the_breakdown_to_the_last_digit(two: Run, tmp_path: Path) -> None:
    write_report([two], tmp_path / "page.html")
    data = data_of(tmp_path / "page.html")
    breakdown = two.breakdown()
    assert data["breakdown"]["totals"] == breakdown.totals
    shown = breakdown.rounds.to_dict(as_series=False)
    assert data["breakdown"]["rounds"] == {
        name: shown[name] for name in (*run_data.OF_ROUNDS, "compute_s", "upload_s", "wait_s")}
    assert data["breakdown"]["devices"] == breakdown.devices.to_dict(as_series=False)
    assert data["path"]["length_s"] == two.critical_path().length_s
    assert data["gantt"]["order"] == {"1": [0, 1], "2": [1, 0, 2]}      # device 2 had no plan
    assert data["batteries"]["lines"][0]["y"] == pytest.approx([1.0, 0.8, 0.7, 0.575])
    assert data["notes"] == {"gantt": "The rounds of this run cannot be planned again. The outline shows the critical "
                             "path, in rounds where one device finishes last."}
    assert data["gantt"]["path"]["2"] == {"device": [1, 1], "t0": [0.0, 2.0], "t1": [2.0, 5.0]}


def test_the_page_asks_for_nothing_outside_itself(two: Run, tmp_path: Path) -> None:
    write_report([two], tmp_path / "page.html")
    page = tmp_path / "page.html"
    without_scripts = re.sub(r"<script>.*?</script>", "", page.read_text(), flags=re.DOTALL)
    assert not re.search(r"(src|href)\s*=|@import|url\(", without_scripts)
    assert "default-src 'none'" in without_scripts


def test_a_strangers_names_stay_text(two: Run, tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    say(two.path, scenario=evil, status="finished")
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
    monkeypatch.setattr(gantt_data, "MOST_ROWS", 1)
    monkeypatch.setattr(run_data, "MOST_POINTS", 4)
    monkeypatch.setattr(run_data, "MOST_BATTERIES", 1)
    data = run_data.run_data(two)
    assert data["notes"]["map"] == "Shows 2 of 3 devices, evenly picked."
    assert data["notes"]["batteries"] == "Shows 1 of 2 devices, those that used most of their battery."
    assert data["notes"]["gantt"].endswith("Of a round, the 1 device that waited least.")
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
    assert "devices or seeds of these runs differ" not in (tmp_path / "page.html").read_text()
    assert [run["totals"] for run in data_of(tmp_path / "page.html")["runs"]] == [two.breakdown().totals] * 2
    devices = pl.read_parquet(other.path / "devices.parquet")
    devices.with_columns(gain=pl.col("gain") * 2).write_parquet(other.path / "devices.parquet")
    sign(other.path)
    write_report([two, Run(other.path)], tmp_path / "page.html")
    assert "devices or seeds of these runs differ" in (tmp_path / "page.html").read_text()


def test_labels_take_as_much_of_the_path_as_tells_runs_apart(two: Run, tmp_path: Path) -> None:
    other = store(tmp_path / "elsewhere" / "two", *two_rounds(), rounds=2)
    assert labels_of([two, other]) == [f"{tmp_path.name}/two", "elsewhere/two"]
    assert len(set(labels_of([two, two]))) == 2


def test_a_path_that_cannot_be_written_is_an_input_error(two: Run, tmp_path: Path) -> None:
    with refused("unwritable", "page.html"):
        write_report([two], tmp_path / "missing" / "page.html")


def test_the_page_tells_who_sets_the_pace_and_what_was_decided_for_each_slice(planted: Run, tmp_path: Path) -> None:
    device = int(planted.path.name.removeprefix("device-"))
    write_report([planted], tmp_path / "page.html")
    gantt = data_of(tmp_path / "page.html")["gantt"]
    assert gantt["pace"]["1"]["devices"] == [device]
    told = gantt["pace"]["1"]["sentence"]
    assert told.startswith(f"poor {device} limits round 1. Raising poor {device}'s maximum CPU frequency to")
    assert gantt["path"] == {}
    jobs = planted.jobs.sort("job")
    facts = pl.DataFrame(gantt["facts"]).sort("job")
    assert facts["job"].to_list() == jobs["job"].to_list()
    for name in ("bandwidth_hz", "cpu_hz", "power_w", "budget_j"):
        assert facts[name].to_list() == pytest.approx(jobs[name].to_list(), rel=1e-4)
    assert facts["rate_bit_per_s"].to_list() == pytest.approx((jobs["bits"] / jobs["upload_s"]).to_list(), rel=1e-4)
    assert facts["gain_db"].to_list() == pytest.approx((10 * jobs["gain"].log10()).to_list(), rel=1e-4)
    bars = gantt["bars"]["2"]
    energy = sum(bars["energy_j"])
    assert energy == pytest.approx(planted.rounds["energy_j"][1], rel=1e-4)
    assert set(bars["job"]) == set(jobs.filter(pl.col("round") == 2)["job"])


def test_the_slowest_round_is_opened_and_of_equal_ones_the_first(two: Run, planted: Run) -> None:
    assert gantt_data.slowest(two.rounds) == 1                 # 6 s and 5 s
    assert planted.rounds["round_s"][0] == pytest.approx(planted.rounds["round_s"][1])
    assert gantt_data.slowest(planted.rounds) == 1
    assert gantt_data.slowest(two.rounds.head(1)) == 1


def test_where_plans_run_out_the_longest_rounds_are_looked_at(
    planted: Run, monkeypatch: pytest.MonkeyPatch,
) -> None:
    notes: dict[str, str] = {}
    found = gantt_data.gantt(planted, planted.rounds, planted.rounds, notes, share=1 / bottleneck.MOST_PLANS)
    assert list(found["pace"]) == [str(gantt_data.slowest(planted.rounds))]
    assert "computed for 1 round," in notes["gantt"]
    assert found["path"] == {}                          # all end together, so the critical path could be any


def test_code_that_a_strangers_run_names_is_not_imported_for_its_page(planted: Run, tmp_path: Path) -> None:
    shutil.copytree(planted.path, tmp_path / "run")
    scenario = tmp_path / "run" / "scenario.toml"
    scenario.write_text(scenario.read_text().replace('method = "sao"', 'method = "this:d"'))
    sign(tmp_path / "run")
    write_report([Run(tmp_path / "run")], tmp_path / "page.html")
    assert "this" not in sys.modules
    assert data_of(tmp_path / "page.html")["gantt"]["pace"] == {}


def test_a_page_is_small(two: Run, tmp_path: Path) -> None:
    write_report([two], tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 150_000


@pytest.mark.extended
def test_the_page_of_a_megabyte_of_trace_is_under_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gantt_data, "MOST_PLANS", 200)
    scenario = load_scenario("paper", ["end.rounds=1700", "selection.method=fedavg"])
    run = simulate(scenario, tmp_path / "run", learning=False)
    assert sum(file.stat().st_size for file in (run.path / "trace").iterdir()) > 1_000_000
    write_report([run], tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 2_000_000
    notes = data_of(tmp_path / "page.html")["notes"]
    assert notes["latency"].endswith("of 1,700 rounds, evenly spread.")
    assert "of 1,700 rounds: evenly spread ones and the ten longest." in notes["timeline"]
    write_report([run, run, run, run, run], tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 2_000_000


def test_changed_keys_are_those_that_are_not_alike(planted: Run, tmp_path: Path) -> None:
    changes = ["allocation.method=equal", "population.poor.budget=1J", "cell.bandwidth=9MHz"]
    other = simulate(load_scenario(str(planted.path / "scenario.toml"), changes), tmp_path / "other", seed=3,
                     learning=False)
    text = (planted.path / "scenario.toml").read_text()
    found = dict(changed_keys([planted, other]))
    assert found["--seed"] == ["0", "3"]
    assert found["allocation.method"] == ["sao", "equal"]
    assert found["population.poor.budget"][1] == "1J"
    assert found["cell.bandwidth"][0] in text
    assert len(found) == 4
    assert changed_keys([planted, planted]) == []


def test_a_quantity_in_another_spelling_is_not_changed(planted: Run, tmp_path: Path) -> None:
    text = (planted.path / "scenario.toml").read_text()
    (tmp_path / "cell.toml").write_text(text.replace('"300 m"', '"0.3km"').replace("20 dBm", "100 mW"))
    again = simulate(load_scenario(str(tmp_path / "cell.toml")), tmp_path / "again", learning=False)
    assert (again.path / "scenario.toml").read_text() != text
    assert changed_keys([planted, again]) == []


def test_differences_are_against_the_first_run(planted: Run, tmp_path: Path) -> None:
    equal = simulate(load_scenario(str(planted.path / "scenario.toml"), ["allocation.method=equal"]),
                     tmp_path / "equal", learning=False)
    data = comparison_data([planted, equal], ["a", "b"])
    rows = {row[0]: row[1:] for row in data["numbers"]}
    longer = equal.summary["simulated_s"] / planted.summary["simulated_s"] - 1
    assert rows["simulated time"][2] == f"{100 * longer:+.1f} %"
    assert rows["rounds"] == ["2", "2", "="]
    assert rows["allocation"] == ["sao", "equal", "differs"]
    assert "best accuracy" not in rows
    assert [gantt["rounds"]["round"] for gantt in data["gantts"]] == [[1, 2]] * 2


def colours(style: str) -> dict[str, tuple[int, int, int]]:
    """The colours of a part of the style by their names."""
    return {name: (int(code[:2], 16), int(code[2:4], 16), int(code[4:], 16))
            for name, code in re.findall(r"--([\w-]+): #([0-9a-f]{6});", style)}


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_one_colour_has_one_meaning(mode: str) -> None:
    light, dark = (REPORT / "page.css").read_text().split("prefers-color-scheme: dark")
    found = colours(light if mode == "light" else dark)
    ink = {"limit", "open"}                   # what a chart measures against, in the colour of its text
    paper = {"page", "card", "text", "soft", "line", "grid", "warning"}
    assert {found[name] for name in ink} == {found["text"]}
    meanings = {name: colour for name, colour in found.items() if name not in ink | paper}
    assert {"compute", "upload", "wait", "pace", "lost", "energy", "learned", "amount", "g0", "g5"} <= set(meanings)
    near = [(one, other) for one in meanings for other in meanings if one < other
            and sum((a - b) ** 2 for a, b in zip(meanings[one], meanings[other], strict=True)) < 40**2]
    assert near == []


def test_every_colour_that_is_drawn_is_in_the_style() -> None:
    style = colours((REPORT / "page.css").read_text().split("prefers-color-scheme: dark")[0])
    script = "".join((REPORT / name).read_text() for name in SCRIPTS)
    used = set(re.findall(r'(?:paint\(|colour: )"(\w+)"', script))
    assert used <= set(style)
    assert {"pace", "lost", "energy", "learned", "amount", "limit", "open"} <= used


@pytest.fixture(scope="module")
def as_they_come(tmp_path_factory: pytest.TempPathFactory) -> Run:
    scenario = load_scenario("lab", ["server.kind=fedbuff", "server.buffer=2", "end.rounds=60",
                                     "allocation.sharing=equal",
                                     "population.phone.count=10", "selection.cohort=10"])
    return simulate(scenario, tmp_path_factory.mktemp("runs") / "fedbuff", seed=1)


def test_staleness_and_who_delivered_are_those_of_the_jobs(as_they_come: Run, tmp_path: Path) -> None:
    write_report([as_they_come], tmp_path / "page.html")
    data = data_of(tmp_path / "page.html")
    arrived = as_they_come.jobs.filter(pl.col("outcome") == "arrived")
    stale, who = data["staleness"], data["delivered"]
    assert stale["wide"] == 1
    assert stale["from"] == list(range(len(stale["count"])))
    assert [arrived.filter(pl.col("staleness") == tau).height for tau in stale["from"]] == stale["count"]
    assert stale["mean"] == arrived["staleness"].mean()
    assert sum(who["arrived"]) == arrived.height == 120
    assert who["planned_s"] == sorted(who["planned_s"])
    assert who["fast"] == who["arrived"][0] > who["slow"] == who["arrived"][-1]      # a tenth of ten devices
    assert "devices dropped out" not in (tmp_path / "page.html").read_text()         # though the end cut some jobs off


def test_many_values_of_staleness_go_into_bins(as_they_come: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run_data.staleness(as_they_come)
    monkeypatch.setattr(run_data, "MOST_BINS", 4)
    binned = run_data.staleness(as_they_come)
    wide = binned["wide"]
    assert 2 <= len(binned["count"]) <= 4
    assert binned["from"] == [wide * place for place in range(len(binned["count"]))]
    assert binned["count"] == [sum(whole["count"][start:start + wide]) for start in binned["from"]]


@pytest.mark.slow
def test_servers_side_by_side(as_they_come: Run, tmp_path: Path) -> None:
    changes = ["end.rounds=12", "population.phone.count=10", "selection.cohort=10"]
    waiting = simulate(load_scenario("lab", changes), tmp_path / "synchronous", seed=1)
    data = comparison_data([waiting, as_they_come], ["synchronous", "fedbuff"])
    rows = {name: cells for name, *cells in data["numbers"]}
    assert rows["server"] == ["synchronous", "fedbuff", "differs"]
    assert rows["aggregated updates"] == ["120", "120", "="]
    assert rows["mean staleness"][0] == "0"
    assert data["runs"][1]["rounds"]["updates"] == list(range(2, 122, 2))
    faster = waiting.summary["simulated_s"] / as_they_come.summary["simulated_s"] - 1
    assert rows["updates per second"][2] == f"{100 * faster:+.1f} %"
    assert "world" not in data["notes"]
    alone = comparison_data([waiting, waiting], ["one", "two"])
    assert not any(name == "mean staleness" for name, *_ in alone["numbers"])


@pytest.mark.slow
def test_a_page_written_twice_is_the_same(tmp_path: Path) -> None:
    """In processes of their own: the order of sets, and sums over threads, differ from one to the next."""
    simulate(load_scenario("street", ["end.rounds=12"]), tmp_path / "run", learning=False)
    pages = []
    for number in range(3):
        file = tmp_path / f"{number}.html"
        subprocess.run([sys.executable, "-m", "netsim", "report", str(tmp_path / "run"), "--out", str(file)],
                       check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": str(number)})
        pages.append(file.read_bytes())
    assert pages[0] == pages[1] == pages[2]


def test_a_run_of_many_joules_is_read_like_any_other(tmp_path: Path) -> None:
    run = simulate(load_scenario("tiny", ["population.node.cpu.capacitance=1e-11", "population.node.budget=1e20 J"]),
                   tmp_path / "run")
    assert run.jobs["energy_j"].min() > 1e12
    assert run.breakdown().totals["makespan_s"] == run.critical_path().length_s
    write_report([run], tmp_path / "page.html")
    for kind in ("breakdown", "energy", "band"):
        run.figure(kind)
    for form in ("csv", "parquet", "perfetto"):
        export(run, form, tmp_path / form)


def test_a_run_of_many_years_is_read_like_any_other(tmp_path: Path) -> None:
    """An upload of 1e21 bit takes 1e13 s and more: what netsim wrote is not damaged."""
    text, _ = planted_cell(1, "clock")
    text = re.sub(r'bits = ".*"', 'bits = "1e21 bit"', re.sub(r'budget = "[^"]*"', 'budget = "1e9 MJ"', text))
    (tmp_path / "cell.toml").write_text(text)
    run = simulate(load_scenario(str(tmp_path / "cell.toml"), ["allocation.method=equal"]), tmp_path / "run")
    assert run.rounds["t1"][-1] > 1e12
    assert run.breakdown().totals["makespan_s"] == run.critical_path().length_s
    write_report([run], tmp_path / "page.html")
    for kind in ("breakdown", "energy", "band"):
        run.figure(kind)
    for form in ("csv", "parquet"):
        export(run, form, tmp_path / form)
    with refused("too-large", "run"):             # Perfetto counts microseconds in 64 bits
        export(run, "perfetto", tmp_path / "perfetto")
