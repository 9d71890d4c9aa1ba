"""Why a round took so long: every answer against the round that it tells of, simulated."""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import polars as pl
import pytest
from explained_cells import BOTTLENECKS, planted_cell, random_rounds, random_scenario
from levels import extended
from refused import refused
from small_runs import store

from netsim import load_scenario, simulate
from netsim.analysis.bottleneck import bottlenecks
from netsim.analysis.counterfactuals import WhatIfAnalysis
from netsim.analysis.dropouts import dropouts
from netsim.analysis.replay import RoundReplays
from netsim.cli import main
from netsim.run import Run, load_run
from netsim.server.replay import RunReplay
from netsim.trace.recorder import Recorder
from netsim.trace.schema import ARRIVED, JOBS

pytestmark = pytest.mark.slow

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
KEYS = {"without", "cpu_max", "budget", "power", "bandwidth", "method"}
ALL = KEYS | {"allocation method", "scheduler"}


@pytest.fixture(scope="module")
def classroom_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scenario that the tutorial has its reader save."""
    block = re.search(r"^```toml\n(# my-cell\.toml\n.*?)^```$", TUTORIAL.read_text(), re.DOTALL | re.MULTILINE)
    assert block
    file = tmp_path_factory.mktemp("classroom") / "my-cell.toml"
    file.write_text(block[1])
    return file


@pytest.fixture(scope="module")
def classroom(classroom_file: Path) -> Run:
    run = simulate(load_scenario(str(classroom_file)), learning=False)
    run.explain = cache(run.explain)      # most tests read the same explanations
    return run


def run_of(text: str, folder: Path, seed: int = 0) -> Run:
    """The run of a scenario given as text, without training."""
    file = folder / "cell.toml"
    file.write_text(text)
    return simulate(load_scenario(str(file)), learning=False, seed=seed)


def test_the_laptop_sets_the_pace_of_round_7(classroom: Run, classroom_file: Path, tmp_path: Path) -> None:
    told = json.loads(json.dumps(classroom.explain(7).as_json(), allow_nan=False))
    assert list(told) == ["round", "round_s", "binding", "what_if"]
    assert (told["binding"][0]["device"], told["binding"][0]["limit"]) == (12, "cpu_max")
    for first in told["what_if"][:2]:
        assert (first["device"], first["key"]) == (12, "cpu_max")
        text = classroom_file.read_text().replace('max = "0.6 GHz"', f'max = "{0.6 * first["factor"]!r} GHz"')
        rerun = run_of(text, tmp_path).rounds["round_s"]
        assert first["saves_s"] == pytest.approx(told["round_s"] - rerun[6], rel=1e-9)
        assert first["round_s"] == pytest.approx(rerun[6], rel=1e-9)


@pytest.mark.parametrize(("key", "old", "new"), [
    ("budget", 'budget = "60 mJ"', 'budget = "120 mJ"'), ("bandwidth", '"2 MHz"', '"4 MHz"'),
    ("cpu_max", 'max = "0.6 GHz"', 'max = "1.2 GHz"'), ("method", "[end]", '[allocation]\nmethod = "equal"\n[end]')])
def test_a_saving_is_that_of_a_run_with_the_change(
    classroom: Run, classroom_file: Path, tmp_path: Path, key: str, old: str, new: str,
) -> None:
    rerun = run_of(classroom_file.read_text().replace(old, new), tmp_path).rounds["round_s"]
    explained = classroom.explain()
    assert explained.round == 1
    assert explained.whole is not None
    for told, found in ((classroom.explain(7), rerun[6]), (explained.whole, math.fsum(rerun))):
        row = next(each for each in told.what_if if each.key == key and (
            (each.factor == 2.0 and each.device in (12, None)) or each.change.endswith("method equal")))
        assert row.round_s == pytest.approx(found, abs=1e-9)
        assert row.saves_s == pytest.approx(told.round_s - found, abs=1e-9)


def test_what_is_told_is_sorted_and_of_the_keys_there_are(classroom: Run) -> None:
    told = classroom.explain().as_json()
    for part in (told, told["run"]):
        saved = [each["saves_s"] for each in part["what_if"]]
        assert saved == sorted(saved, reverse=True)
        assert {each["key"] for each in part["what_if"]} == KEYS
        assert all(each["device"] is None for each in part["what_if"] if each["key"] in ("bandwidth", "method"))
    assert (told["run"]["round"], told["run"]["round_s"]) == (None, pytest.approx(classroom.summary["simulated_s"]))


def test_it_says_what_is_different_this_time(classroom: Run) -> None:
    said = " ".join(classroom.explain(7).differs)
    assert "Not in the median round: laptop 12" in said
    assert re.search(r"Rounds with laptop 12 \(8 of 20\) take 221\.9 ms on average, rounds without it 94\.54 ms", said)


# Rounds played again.

@pytest.mark.parametrize("count", [12, *extended([30])])
def test_a_round_planned_again_is_the_round(tmp_path: Path, count: int) -> None:
    """The same length, and the same devices arrive."""
    outcomes: Counter[str] = Counter()
    for number in range(count):
        run = random_scenario(number, tmp_path)
        replays = RoundReplays(run) if run is not None and run.jobs.height else None
        for one, jobs in (replays.jobs.items() if replays else ()):
            was = WhatIfAnalysis.of(replays, one).was
            assert was.round_s == pytest.approx(replays.lengths[one], abs=1e-9)
            assert was.arrived == set(jobs.filter(jobs["outcome"] == ARRIVED)["device"].to_list())
            outcomes.update(jobs["outcome"].to_list())
    assert set(outcomes) == {"arrived", "battery empty", "deadline", "infeasible"}


# A bottleneck that was put there is found.

def named_first(run: Run, bottleneck: str, device: int) -> bool:
    """Whether the first row is about what was planted; a weak channel has no limit of its own, only a device."""
    first = run.explain(2).what_if[0]
    if bottleneck == "band":
        return first.key == "bandwidth"
    keys = {"clock": ("cpu_max",), "budget": ("budget",), "channel": ("power", "budget", "cpu_max", "without")}
    return first.device == device and first.key in keys[bottleneck]


def test_a_planted_bottleneck_is_named_first(tmp_path: Path) -> None:
    found = []
    for number in range(30):
        bottleneck = BOTTLENECKS[number % len(BOTTLENECKS)]
        text, device = planted_cell(number, bottleneck)
        found.append(named_first(run_of(text, tmp_path, seed=number), bottleneck, device))
    assert sum(found) >= 29, found


# Drop-outs and bad input.

def test_drop_outs_and_what_would_have_kept_them(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for run, number in random_rounds(40, tmp_path):
        outcomes = set(run.jobs.filter(run.jobs["round"] == number)["outcome"].to_list()) - {ARRIVED}
        lost = dropouts(WhatIfAnalysis.of(RoundReplays(run), number))
        assert {each.reason for each in lost} == outcomes
        seen.update(each.reason for each in lost if each.kept_by)
    assert {"battery empty", "deadline", "infeasible"} <= set(seen)


def test_a_remedy_for_the_deadline_suffices(classroom_file: Path, tmp_path: Path) -> None:
    text = classroom_file.read_text()
    hurried = run_of(text + '\n[rounds]\ndeadline = "210 ms"\n', tmp_path)
    lost = hurried.explain(7).dropped
    enough = next(re.fullmatch(r"a deadline of (.*)", said) for said in lost[0].kept_by if "deadline" in said)
    again = run_of(text + f'\n[rounds]\ndeadline = "{enough[1]}"\n', tmp_path)
    kept = again.jobs.filter((again.jobs["round"] == 7) & (again.jobs["device"] == lost[0].device))
    assert kept["outcome"].to_list() == [ARRIVED]


def test_a_remedy_for_a_device_that_does_not_fit_suffices(classroom_file: Path, tmp_path: Path) -> None:
    poor = classroom_file.read_text().replace('budget = "60 mJ"', 'budget = "0.6 mJ"')
    lost, = (each for each in run_of(poor, tmp_path).explain(7).dropped)
    assert (lost.device, lost.reason) == (12, "infeasible")
    enough = next(re.search(r"12's energy budget \(?to (.*? mJ)", said) for said in lost.kept_by if "budget" in said)
    again = run_of(poor.replace("0.6 mJ", enough[1]), tmp_path)
    kept = again.jobs.filter((again.jobs["round"] == 7) & (again.jobs["device"] == 12))
    assert kept["outcome"].to_list() == [ARRIVED]


def test_a_remedy_for_a_battery_suffices(classroom_file: Path, tmp_path: Path) -> None:
    """The laptop has energy to compute at its slowest, but not for its upload too, with the channel as it is."""
    empty = classroom_file.read_text().replace("[cell]", '[cell]\nfading = "rayleigh"').replace(
        'budget = "60 mJ"', 'budget = "60 mJ"\nbattery = "X mJ"')
    lost, = run_of(empty.replace("X", "0.7"), tmp_path).explain(1).dropped
    assert (lost.device, lost.reason) == (12, "infeasible")
    enough = next(re.fullmatch(r"a battery that holds (.*) mJ when .*", said) for said in lost.kept_by if "bat" in said)
    again = run_of(empty.replace("X mJ", enough[1] + " mJ"), tmp_path)
    assert again.jobs.filter((again.jobs["round"] == 1) & (again.jobs["device"] == 12))["outcome"][0] == ARRIVED


def test_limits_that_are_not_the_plans_own_are_named(classroom_file: Path, tmp_path: Path) -> None:
    """A battery that holds less than the budget has its price; a deadline binds where it leaves devices out."""
    text = classroom_file.read_text().replace('budget = "60 mJ"', 'budget = "60 mJ"\nbattery = "5 mJ"')
    first = run_of(text, tmp_path).explain(1)
    assert [each.device for each in first.binding if each.limit == "battery"] == [12]
    assert not [each for each in first.binding if each.limit == "budget" and each.device == 12]
    doubled = next(each for each in first.what_if if each.key == "budget" and each.device == 12)
    assert doubled.saves_s == 0.0                     # the battery holds no more for that
    hurried = run_of(classroom_file.read_text() + '\n[rounds]\ndeadline = "210 ms"\n', tmp_path).explain(7)
    assert (hurried.binding[-1].limit, hurried.binding[-1].device, hurried.binding[-1].price_s_per_unit) == (
        "deadline", None, 0.0)
    assert json.loads(json.dumps(hurried.as_json(), allow_nan=False))["binding"][-1]["limit"] == "deadline"


def test_a_deadline_on_which_a_round_ends_has_a_price(classroom_file: Path, tmp_path: Path) -> None:
    """One after the other takes longer here than the plan: the deadline cuts the last off."""
    text = classroom_file.read_text().replace('"2 MHz"', '"0.5 MHz"').replace(
        "[end]", '[allocation]\nsharing = "tdma"\n[rounds]\ndeadline = "X s"\n[end]')
    run = run_of(text.replace("X", "0.3"), tmp_path)
    late = run.jobs.filter(run.jobs["outcome"] == "deadline")["round"]
    assert len(late)
    cut = run.explain(late[0])
    assert cut.binding[-1].limit == "deadline"
    longer = run_of(text.replace("X", "0.3003"), tmp_path).rounds["round_s"][late[0] - 1]
    assert (longer - cut.round_s) / 0.0003 == pytest.approx(cut.binding[-1].price_s_per_unit, rel=1e-6)


@pytest.mark.parametrize("sharing", ["equal", "tdma"])
def test_a_discipline_as_a_change_is_the_run_with_it(
    classroom: Run, classroom_file: Path, tmp_path: Path, sharing: str,
) -> None:
    rerun = run_of(classroom_file.read_text().replace("[end]", f'[allocation]\nsharing = "{sharing}"\n[end]'), tmp_path)
    for told, found in ((classroom.explain(7), rerun.rounds["round_s"][6]),
                        (classroom.explain().whole, math.fsum(rerun.rounds["round_s"]))):
        row = next((each for each in told.what_if if each.change == f"scheduler {sharing}"), None)
        if row is None:            # somebody would break its budget
            assert rerun.breakdown().shares.filter(pl.col("energy_j") > pl.col("budget_j") * (1 + 1e-9)).height
            continue
        assert (row.key, row.device, row.factor) == ("method", None, None)
        assert row.round_s == pytest.approx(found, abs=1e-9)
    back = next(each for each in rerun.explain(7).what_if if each.change == "scheduler planned")
    assert back.round_s == pytest.approx(classroom.rounds["round_s"][6], abs=1e-9)


def test_a_round_that_is_not_there(classroom: Run) -> None:
    for number in (0, 21, -1):
        with refused("out-of-range", "round"):
            classroom.explain(number)


def test_a_round_in_which_nobody_fits(classroom_file: Path, tmp_path: Path) -> None:
    """A laptop alone, with too small a budget: one sentence, with what would have helped and what else is there."""
    text = classroom_file.read_text().replace("cohort = 6", "cohort = 1")
    run = run_of(text.replace('budget = "60 mJ"', 'budget = "0.6 mJ"'), tmp_path)
    nobody = run.rounds.filter(run.rounds["arrived"] == 0)["round"][0]
    with refused("infeasible", f"round {nobody}") as caught:
        run.explain(nobody)
    assert re.search("Remedies for laptop 12: .*laptop 12's energy budget .*Rounds with a plan: 1, ", caught.value.hint)


def test_the_advice_of_the_critical_path_names_who_sets_the_pace(classroom: Run) -> None:
    path = classroom.critical_path(7)
    assert path.steps["round"].unique().to_list() == [7]
    assert path.length_s == pytest.approx(classroom.rounds["round_s"][6])
    found = bottlenecks(classroom, [1, 3, 7])
    assert found[1].sentence.startswith("laptop 12 limits round 1. Raising laptop 12's maximum CPU frequency to")
    assert "limits round 7. Raising laptop 12's maximum CPU frequency to 2.195 GHz" in found[7].sentence
    assert "The bandwidth limits round 3. Doubling the bandwidth (to 4 MHz) would shorten it by" in found[3].sentence
    with refused("out-of-range", "round"):
        classroom.critical_path(21)


def test_the_critical_path_plays_no_round_again(classroom: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunReplay, "play", None)
    advice = " ".join(load_run(classroom.path).critical_path().advice())
    assert "several devices end together; `netsim explain`" in advice


@pytest.mark.parametrize("believes", ["now", "mean"])
@pytest.mark.parametrize("more", [[], ["allocation.sharing=adaptive"], ["population.phone.battery=80mJ"]])
def test_rounds_whose_fading_the_plan_does_not_know_are_explained(believes: str, more: list[str]) -> None:
    """Per-round fading and a plan by the mean gain: the played gain is not the planned one."""
    run = simulate(load_scenario("lab", ["cell.fading=rayleigh", f"allocation.channel={believes}", *more]), seed=3)
    found = run.explain(4, methods=False)
    assert found.round_s == run.rounds["round_s"][3]
    rerun = simulate(run.scenario.with_({"cell.bandwidth": "40 MHz"}), seed=3)
    doubled = next(each for each in found.what_if if each.key == "bandwidth" and each.factor == 2.0)
    if "battery" not in str(more):             # which another band would have left fuller
        assert doubled.round_s == pytest.approx(rerun.rounds["round_s"][3], abs=1e-9)


def test_on_the_command_line(
    classroom: Run, two: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    def netsim(*words: object) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["netsim", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capsys.readouterr()

    code, out, _ = netsim("explain", classroom.path, "--round", 7)
    assert code == 0
    assert "round 7 took 219.3 ms" in out
    assert "10 of 42 changes; all with --all" in out
    assert "allocation method equal" in netsim("explain", classroom.path, "--round", 7, "--all")[1]
    assert json.loads(netsim("explain", classroom.path, "--json")[1]) == classroom.explain().as_json()
    for words, said in (((classroom.path, "--round", 21), "round: is out of range (found 21; expected 1 to 20)"),
                        ((two.path,), "No job is recorded")):
        code, out, err = netsim("explain", *words)
        assert (code, out) == (2, "")
        assert said in err
        assert err.count("\n") == 1


def test_a_run_without_jobs_or_with_other_jobs(two: Run, tmp_path: Path) -> None:
    with refused("empty", "jobs"):
        two.explain()
    recorder = Recorder()
    numbers = {name: 0 if name in ("job", "version", "device", "staleness") else 1 for name in JOBS}
    recorder.add_jobs(1, {**numbers, "outcome": recorder.text("arrived")})
    recorder.span("round", -1, 0.0, 1.0)
    run = store(tmp_path / "old", (1, recorder.take()), rounds=1)
    with refused("other-version", "round 1"):
        run.explain(1)


def test_a_run_of_another_method_is_not_explained_wrongly(classroom: Run, classroom_file: Path) -> None:
    replays = RoundReplays(classroom)
    replays.scenario = load_scenario(str(classroom_file), ["allocation.method=equal"])
    with refused("other-version", "round 7"):
        WhatIfAnalysis.of(replays, 7).was  # noqa: B018 - playing it finds the difference


def test_a_long_run_of_large_cohorts_is_simulated_in_some_of_its_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    run = simulate(load_scenario("lab", ["end.rounds=6", "selection.cohort=12"]))
    assert run.explain(methods=False).whole.rounds is None
    for name in ("MOST_PLANS", "MOST_JOBS"):
        monkeypatch.setattr(f"netsim.analysis.explain.{name}", 900)
    found = run.explain(methods=False)
    assert found.whole.rounds == (1, 5)        # twelve changes of 72 jobs that cost 4 each are 3.84 times 900
    assert found.whole.round_s == pytest.approx(run.rounds["round_s"][0] + run.rounds["round_s"][4])
    assert found.as_json()["run"]["rounds"] == [1, 5]
    again = [run.explain(number, methods=False) for number in found.whole.rounds]
    for row in found.whole.what_if:
        if row.key == "bandwidth":
            saved = [each.saves_s for one in again for each in one.what_if
                     if (each.key, each.factor) == (row.key, row.factor)]
            assert row.saves_s == pytest.approx(math.fsum(saved), abs=1e-9)


def test_a_round_of_many_waves_is_the_sum_of_its_waves() -> None:
    """Each what-if of a first round of all devices, against a run with the change."""
    waves = ["selection.method=fedavg", "end.rounds=1", "population.phone.count=60", "cell.bandwidth=4MHz"]
    run = simulate(load_scenario("paper", waves), seed=2, learning=False)
    assert run.jobs["t0"].n_unique() > 2
    found = run.explain(1)
    for key, change in (("bandwidth", {"cell.bandwidth": "8 MHz"}), ("method equal", {"allocation.method": "equal"}),
                        ("scheduler tdma", {"allocation.sharing": "tdma"})):
        rows = [each for each in found.what_if if each.change.endswith(key) or (each.key, each.factor) == (key, 2.0)]
        rerun = simulate(run.scenario.with_(change), seed=2, learning=False)
        for row in rows:
            assert row.round_s == pytest.approx(rerun.rounds["round_s"][0], abs=1e-9)
        assert rows or key != "bandwidth"
