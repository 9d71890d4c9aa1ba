"""The paper's tables and figures: what is written, the same every time, and only what was measured."""

import csv
import itertools
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refused import refused

from netsim.paper import accuracy_common, accuracy_figures, asynchronous, trials
from netsim.paper.accuracy_figures import score
from netsim.paper.first_round import first_round
from netsim.paper.reproduce import TARGETS, Context, chosen, reproduce
from netsim.paper.trials import Trial
from netsim.sweep.points import Record, write_record
from netsim.validation import validate

ISSUE = {f"fig{number}" for number in range(4, 15)} | {"table1", "table2", "table3"}


def quick(tmp_path: Path, **options: Any) -> Context:
    return Context(tmp_path / "paper", quick=True, **options)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of some targets in small, for all tests that read what they wrote."""
    context = quick(tmp_path_factory.mktemp("written"), trials=3)
    reproduce(["table2", "fig5", "fig6", "fig14"], context)
    return context.out


def fake(context: Context, trial: Trial, accuracy: list[float], reached: bool = True) -> None:
    """Stores a record as a finished run of this trial would."""
    cell = trial.point(context)
    cell.record.parent.mkdir(parents=True, exist_ok=True)
    count = len(accuracy)
    write_record(cell.record, {
        **cell.note, **cell.also, "rounds": count, "target_reached": reached,
        "simulated_s": 0.1 * count, "energy_j": 0.2 * count,
        "seconds": 5.0, "by_round": {"accuracy": accuracy, "arrived": [30] + [trial.cohort] * (count - 1)}})


def test_every_target_of_the_paper_is_there_and_can_be_found() -> None:
    assert set(TARGETS) >= ISSUE
    assert chosen(["fig7", "fig5"]) == ["fig5", "fig7"]
    assert chosen(["all"]) == chosen([]) == list(TARGETS)
    with refused("unknown-name", "TARGET"):
        chosen(["figg10"])


@pytest.mark.slow
def test_an_allocation_figure_is_written_and_comes_out_the_same_again(tmp_path: Path) -> None:
    context = quick(tmp_path, trials=3)
    files = ["figure.png", "figure.svg", "numbers.csv", "numbers.json"]
    reproduce(["fig7"], context)
    folder = context.out / "fig7"
    first = {name: (folder / name).read_bytes() for name in files}
    reproduce(["fig7"], context)
    assert {name: (folder / name).read_bytes() for name in files} == first
    rows = list(csv.DictReader((folder / "numbers.csv").open()))
    best = {(row["budget_mj"], row["layout"]): float(row["round_s"]) for row in rows if row["method"] == "sao"}
    assert len(best) == 9
    assert all(float(row["round_s"]) >= best[row["budget_mj"], row["layout"]] * (1 - 1e-6) for row in rows)
    overview = (context.out / "README.md").read_text()
    assert "| [fig7](fig7/README.md)" in overview
    assert "| statements | agrees | differs |\n|---|---|---|\n| 2 | 1 | 1 |" in overview   # SAO is, Algorithm 5 is not


@pytest.mark.slow
def test_fedl_is_never_slower_than_sao_at_the_same_energy(written: Path) -> None:
    rows = list(csv.DictReader((written / "fig5" / "numbers.csv").open()))
    by_case = {(row["layout"], row["case"]): row for row in rows}
    for layout in {row["layout"] for row in rows}:
        cases = ("SAO", "all budgets kept", "SAO's energy", "shortest round")
        sao, kept, same, fast = (by_case[layout, case] for case in cases)
        assert float(same["energy_j"]) == pytest.approx(float(sao["energy_j"]), rel=1e-6)
        assert float(fast["round_s"]) < float(same["round_s"]) < float(sao["round_s"]) < float(kept["round_s"])
        assert (sao["devices_over_budget"], kept["devices_over_budget"]) == ("0", "0")
        assert float(kept["largest_energy_over_budget"]) == pytest.approx(1, rel=1e-6)


@pytest.mark.slow
def test_the_networks_have_the_printed_numbers_of_parameters(written: Path) -> None:
    assert json.loads((written / "table2" / "numbers.json").read_text())["summary"] == {"same": 27}


@pytest.mark.slow
def test_devices_with_the_same_majority_class_are_close(tmp_path: Path) -> None:
    reproduce(["fig4"], quick(tmp_path, workers=1))
    silhouette = json.loads((tmp_path / "paper" / "fig4" / "numbers.json").read_text())["summary"]["silhouette"]
    assert len(silhouette) == 8
    assert silhouette["fc2.weight"] > 0.3


@pytest.mark.slow
def test_learning_figures_are_drawn_from_what_is_stored_and_say_what_is_not(tmp_path: Path) -> None:
    context = quick(tmp_path, stored=True)
    for number in (1, 2):
        fake(context, Trial("digits", "0.8", "divergence", 10, number), [0.3, 0.6, 0.71])
        fake(context, Trial("digits", "0.8", "fedavg", 10, number), [0.2, 0.5, 0.6, 0.65, 0.7, 0.72])
    fake(context, Trial("digits", "0.5", "icas", 10, 1), [0.2] * 10, reached=False)
    fake(context, Trial("digits", "0.8", "divergence", 20, 1), [0.5, 0.72])
    reproduce(["fig10", "fig11", "fig12", "fig13", "table3"], context)
    numbers = {name: json.loads((context.out / name / "numbers.json").read_text())
               for name in ("fig11", "table3")}
    assert numbers["fig11"]["summary"]["digits, 0.8"]["fedavg"] == {"trials": 2, "rounds": [6, 6], "median": 6.0}
    assert numbers["fig11"]["summary"]["digits, 0.5"]["icas"]["rounds"] == [None]
    assert numbers["fig11"]["findings"][0]["measured"] == (
        "divergence needs fewer rounds than fedavg in 2 of 2 paired runs; 0.50 times as many (0.50 to 0.50)")
    assert not (context.out / "fig12").exists()
    assert "+1.00 (trials: 2)" in numbers["table3"]["findings"][0]["measured"]     # 6 rounds against 3
    rows = list(csv.DictReader((context.out / "table3" / "numbers.csv").open()))
    assert [row["divergence"] for row in rows] == ["", "1.0", ""]
    again = json.loads((context.out / "fig13" / "about.json").read_text())
    assert again["seconds"] == 10.0                                              # two stored runs of five seconds


@pytest.mark.slow
def test_a_cohort_size_that_missed_the_target_is_not_the_best(tmp_path: Path) -> None:
    context = quick(tmp_path, stored=True)
    fake(context, Trial("digits", "0.8", "divergence", 10, 1), [0.3, 0.6, 0.71])
    fake(context, Trial("digits", "0.8", "divergence", 20, 1), [0.5, 0.6, 0.72])
    fake(context, Trial("digits", "0.8", "divergence", 30, 1), [0.2] * 10, reached=False)
    [report] = reproduce(["fig13"], context)
    most_devices = report.findings[0]
    assert most_devices.verdict == "differs"
    assert most_devices.measured == "digits: least at S = 10 and 20 (10: 3, 20: 3, 30: not reached)"
    assert report.summary["digits"]["30"] == {"rounds": None, "simulated_s": None, "energy_j": None}


def test_a_stored_trial_of_other_settings_does_not_count(tmp_path: Path) -> None:
    context = quick(tmp_path, stored=True)
    trial = Trial("digits", "0.8", "divergence", 10, 1)
    fake(context, trial, [0.5, 0.8])
    path = trial.point(context).record
    path.write_text(path.read_text().replace('"local_epochs": 5', '"local_epochs": 10'))
    assert not trial.point(context).finished
    assert trials.run_trials([trial], context, "none") == {}


def test_missing_data_are_reported_before_anything_starts(tmp_path: Path) -> None:
    context = Context(tmp_path / "paper", data=str(tmp_path / "nowhere"))
    with refused("no-such-file", "dataset mnist"):
        reproduce(["fig10"], context)


def test_only_the_datasets_asked_for_are_looked_for_and_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    run: list[str] = []
    looked_for: list[str] = []
    monkeypatch.setattr(trials, "run_points", lambda points, *_: run.extend(p.note["dataset"] for p in points))
    monkeypatch.setattr("netsim.learning.datasets.load_dataset", lambda name, root: looked_for.append(name))
    context = Context(tmp_path / "paper", datasets=("mnist", "cifar10"))
    stored = Trial("fashion-mnist", "0.8", "divergence", 20, 1)
    fake(context, stored, [0.5, 0.88])
    records = trials.run_trials(trials.cohort_sizes(context), context, "fig13")
    assert (set(run), set(looked_for)) == ({"mnist", "cifar10"}, {"mnist", "cifar10"})
    assert list(records) == [stored]                          # drawn all the same


def test_trials_run_on_a_cluster_where_one_is_named() -> None:
    assert Context(Path("paper"), workers=3).place.at_once == 3
    assert Context(Path("paper"), cluster="tcp://127.0.0.1:1").place.at_once is None       # it has a queue of its own


def test_the_long_run_starts_with_what_tells_most() -> None:
    order = trials.compared(Context(Path("paper")))
    assert [(trial.dataset, trial.method) for trial in order[:10]] == [
        (dataset, method) for dataset in ("mnist", "fashion-mnist") for method in trials.METHODS]
    assert {(trial.sigma, trial.number) for trial in order[:15]} == {("0.8", 1)}
    assert len(order) == 110


@pytest.mark.slow
def test_no_planned_training_sets_a_key_in_vain(tmp_path: Path) -> None:
    """They are refused when a trial starts, hours after the first one maybe: with published splits and with none."""
    for data in (tmp_path / "published", tmp_path / "none"):
        (data / "partitions").mkdir(parents=True)
    for file, sigma in itertools.product((kind.file for kind in trials.DATA.values()), trials.SIGMAS):
        (tmp_path / "published" / "partitions" / f"{file}-{sigma}.json").write_text("{}")
    for data in (tmp_path / "published", tmp_path / "none"):
        context = Context(tmp_path / "paper", data=str(data))
        plans = {trial for plan in (trials.compared, trials.with_rra, trials.cohort_sizes) for trial in plan(context)}
        for scenario in (*(trial.scenario(context)[0] for trial in plans),
                         *(trial.scenario(context) for trial in asynchronous.planned(context))):
            validate(scenario, learning=True)


def test_the_first_trial_takes_the_published_split(tmp_path: Path) -> None:
    (tmp_path / "partitions").mkdir()
    (tmp_path / "partitions" / "mnist-0.8.json").write_text("{}")
    context = Context(tmp_path / "paper", data=str(tmp_path))
    scenario, split = Trial("mnist", "0.8", "divergence", 10, 1).scenario(context)
    assert (split, scenario.learning.partition.kind) == ("published", "file")
    scenario, split = Trial("mnist", "0.8", "divergence", 10, 2).scenario(context)
    assert (split, scenario.learning.partition.kind) == ("drawn", "majority")
    phone = scenario.population[0]
    assert phone.cpu is not None
    low, high = (5 * 606 * bound for bound in phone.cpu.cycles_per_sample.bounds())
    assert (low, high) == (pytest.approx(5e7), pytest.approx(15e7))     # L C D as calibrated: 10 * 500 * (1e4 to 3e4)


def test_a_score_compares_medians_over_the_trials_that_both_played() -> None:
    def rounds(method: str, *counts: int) -> dict[Trial, Record]:     # 0: this trial was not played; 150: not reached
        return {Trial("mnist", "H", method, 10, number): {"rounds": count, "target_reached": count < 150}
                for number, count in enumerate(counts, start=1) if count}

    panel = {**rounds("fedavg", 10, 30, 150), **rounds("kmeans", 8, 20, 25), **rounds("icas", 8, 150, 150),
             **rounds("cluster-round-robin", 8, 0, 0), **rounds("rra-as-run")}
    assert score(panel, "kmeans") == pytest.approx(30 / 20 - 1)
    assert score(panel, "cluster-round-robin") == pytest.approx(10 / 8 - 1)       # FedAvg's other trials do not count
    assert score(panel, "icas") is None                                           # its median was not reached
    assert score(panel, "rra-as-run") is None                                     # nothing was played


@pytest.mark.parametrize("other", [{"split": "published"}, {"processor": "another chip"}])
def test_runs_on_different_splits_or_processors_are_no_pair(other: dict[str, str]) -> None:
    played = {"rounds": 10, "target_reached": True, "split": "drawn", "processor": "a chip"}
    first, second = (Trial("mnist", "H", method, 10, 1) for method in ("fedavg", "kmeans"))
    assert accuracy_common.paired({first: played, second: played}, "fedavg", "kmeans") == [(played, played)]
    assert accuracy_common.paired({first: played, second: played | other}, "fedavg", "kmeans") == []


def test_pairs_of_which_one_missed_the_target_are_not_in_the_mean() -> None:
    def runs(method: str, *counts: int) -> dict[Trial, Record]:
        return {Trial("mnist", "H", method, 10, number): {"rounds": count, "target_reached": count < 150}
                for number, count in enumerate(counts)}

    found = accuracy_common.fewer_rounds("", {**runs("kmeans", 10, 10, 10), **runs("fedavg", 20, 20, 150)}, "kmeans",
                                         "fedavg")
    assert "in 3 of 3 paired runs; 0.50 times as many (0.50 to 0.50, over the 2 pairs in which" in found.measured


def test_smaller_cohorts_usually_take_less() -> None:
    found = accuracy_figures._usually_less("", {"mnist": {10: {"energy_j": 5.0}, 20: {"energy_j": 4.9},
                                                     30: {"energy_j": 6.0}, 50: {"energy_j": 9.0},
                                                     100: {"energy_j": math.inf}}}, "energy_j")
    assert (found.verdict, found.measured) == ("agrees", "MNIST: in 5 of 6 pairs of sizes")
    assert accuracy_figures._usually_less("", {"mnist": {10: {"energy_j": 5.0}}}, "energy_j").verdict == "not measured"


def test_cohort_sizes_are_compared_on_the_trials_that_all_have_played() -> None:
    played: dict[Trial, Record] = {Trial("mnist", "0.8", "divergence", size, number): {"of": (size, number)}
                                   for size, number in ((20, 1), (20, 3), (10, 1), (10, 2), (10, 3))}
    other: dict[Trial, Record] = {Trial("cifar10", "0.8", "divergence", 20, 2): {"of": "another dataset"}}
    found = accuracy_figures._by_size(played | other, "mnist", [10, 20, 30])
    assert {size: [record["of"] for record in records] for size, records in found.items()} == {
        10: [(10, 1), (10, 3)], 20: [(20, 1), (20, 3)]}
    assert accuracy_figures._by_size(other, "mnist", [10, 20, 30]) == {}


def test_cohort_sizes_on_different_splits_are_not_compared() -> None:
    played: dict[Trial, Record] = {Trial("mnist", "0.8", "divergence", 10, 1): {"split": "published"},
                                   Trial("mnist", "0.8", "divergence", 20, 1): {"split": "drawn"}}
    assert accuracy_figures._by_size(played, "mnist", [10, 20]) == {}


def test_rra_is_compared_on_the_trials_that_both_played() -> None:
    def played(method: str, cohort: int, *numbers: int) -> dict[Trial, Record]:
        return {Trial("mnist", "0.8", method, cohort, number): {"of": (method, number)} for number in numbers}

    mine, theirs = played("divergence", 30, 1, 2), played("rra-as-run", 10, 2, 3)
    assert accuracy_common.paired(mine | theirs, *accuracy_figures.WITH_RRA) == [
        ({"of": ("divergence", 2)}, {"of": ("rra-as-run", 2)})]


def test_rounds_against_rra_are_said_trial_by_trial() -> None:
    assert accuracy_figures._fewer_than_rra({"mnist": [(40.0, 41.0)], "cifar10": []}, 150).verdict == "agrees"
    assert accuracy_figures._fewer_than_rra({"mnist": [(math.inf, math.inf)]}, 150).verdict == "not measured"
    missed = accuracy_figures._fewer_than_rra({"mnist": [(40.0, math.inf)]}, 150)
    assert (missed.verdict, missed.measured) == ("agrees", "MNIST 40 against more than 150 rounds")
    mixed = accuracy_figures._fewer_than_rra({"mnist": [(40.0, 41.0), (50.0, 50.0)], "cifar10": [(9.0, 9.5)]}, 150)
    assert (mixed.verdict, mixed.measured) == (
        "agrees in part", "MNIST 40 against 41, 50 against 50 rounds; CIFAR-10 9 against 9.5 rounds")


@pytest.mark.slow
def test_a_layout_has_the_same_number_in_every_figure(written: Path) -> None:
    fig6, fig14 = ({row["layout"]: row["round_s"] for row in csv.DictReader((written / name / "numbers.csv").open())
                    if row["method"] == "sao" and float(row["power_dbm"]) == 23} for name in ("fig6", "fig14"))
    assert len(fig6) == 3
    assert fig6 == fig14


@pytest.mark.slow
def test_a_report_that_was_cut_short_does_not_stand_in_the_way(tmp_path: Path, written: Path) -> None:
    context = quick(tmp_path, trials=1)
    for name in ("table2", "fig14"):
        shutil.copytree(written / name, context.out / name)
    (context.out / "table2" / "about.json").unlink()
    (context.out / "fig14" / "about.json").write_text('{"of": "another program"}')
    reproduce(["fig6"], context)
    text = (context.out / "README.md").read_text()
    assert "[fig6]" in text
    assert "[table2]" not in text
    assert "[fig14]" not in text


def test_choices_without_stored_trials_say_so(tmp_path: Path) -> None:
    reproduce(["choices"], quick(tmp_path, stored=True))
    findings = json.loads((tmp_path / "paper" / "choices" / "numbers.json").read_text())["findings"]
    assert [finding["verdict"] for finding in findings] == ["differs", "open", "differs", "not measured"]


def test_a_trial_with_a_published_split_counts_where_that_split_is_missing(tmp_path: Path) -> None:
    (tmp_path / "partitions").mkdir()
    (tmp_path / "partitions" / "mnist-0.8.json").write_text("{}")
    trial = Trial("mnist", "0.8", "divergence", 10, 1)
    fake(Context(tmp_path / "paper", data=str(tmp_path)), trial, [0.98, 0.99])
    elsewhere = Context(tmp_path / "paper", data=str(tmp_path / "nowhere"), stored=True)
    assert trials.run_trials([trial], elsewhere, "none")[trial]["split"] == "published"


def test_targets_that_begin_alike_train_their_first_round_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, trial = quick(tmp_path, trials=1, workers=1), Trial("digits", "0.8", "fedavg", 10, 1)
    once = first_round(trial, context).models
    monkeypatch.setattr("netsim.learning.worker_tasks.train_group", None)
    assert np.array_equal(first_round(trial, context).models, once)
    assert np.array_equal(first_round(Trial("digits", "0.8", "kmeans", 10, 1), context).models, once)


def test_the_second_trial_alone_is_not_compared_with_the_first() -> None:
    played = {"rounds": 10, "target_reached": True}
    panel = {Trial("mnist", "H", "fedavg", 10, 1): played, Trial("mnist", "H", "kmeans", 10, 2): played}
    assert score(panel, "kmeans") is None
