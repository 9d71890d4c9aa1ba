"""What is said of stored trials: claims, means over trials, and clusters."""

import math
from pathlib import Path
from typing import Any

import pytest

from netsim.paper import accuracy_common
from netsim.paper.divergence_accuracy import clusters_of
from netsim.paper.reproduce import Context
from netsim.paper.theorem1 import theorem1
from netsim.paper.trials import Trial
from netsim.sweep.points import Record


def test_a_claim_needs_more_pairs_than_chance_would_give() -> None:
    assert accuracy_common.verdict("", [(1, 2)] * 6, "").verdict == "agrees"
    assert accuracy_common.verdict("", [(1, 2)] * 5,
                                   "").verdict == "open"          # 1 in 16 by chance, one way or the other
    assert accuracy_common.verdict("", [(2, 1)] * 6, "").verdict == "differs"
    assert accuracy_common.verdict("", [(1, 2)] * 16 + [(2, 1)] * 6, "").verdict == "open"
    assert accuracy_common.verdict("", [(1, 1)] * 9, "").verdict == "open"
    assert accuracy_common.verdict("", [], "").verdict == "not measured"


def test_a_run_that_has_ended_keeps_its_last_accuracy() -> None:
    records = [{"by_round": {"accuracy": [0.1, 0.9]}}, {"by_round": {"accuracy": [0.2, 0.3, 0.4]}}]
    assert accuracy_common.accuracy_table(records).tolist() == [[0.1, 0.9, 0.9], [0.2, 0.3, 0.4]]


def test_what_choosing_the_farthest_device_of_a_cluster_gains() -> None:
    record = {"cluster": [0, 1, 0, 0, 1], "divergence": [1.0, 5.0, 3.0, 2.0, 4.0],
              "accuracy": [0.5, 0.6, 0.7, 0.3, 0.8], "last_round": [4, 2, 1, 3, 1]}
    first, second = clusters_of(7, record)
    assert (first.trial, first.number, first.devices.tolist()) == (7, 0, [0, 2, 3])
    assert (first.devices[first.farthest], first.stalest) == (2, True)
    assert first.gain == pytest.approx(0.7 - 0.5)
    assert (second.devices[second.farthest], second.stalest) == (1, False)     # device 4 has waited longer
    assert second.gain == pytest.approx(0.6 - 0.7)


def ended(rounds: int, curve: list[float], reached: bool = True) -> Record:
    return {"rounds": rounds, "target_reached": reached, "by_round": {"accuracy": curve}}


def test_shades_are_compared_over_the_rounds_that_all_have_played() -> None:
    wide, narrow = [ended(3, [0.1, 0.2, 0.9]), ended(2, [0.3, 0.2])], [ended(2, [0.2, 0.2]), ended(2, [0.2, 0.3])]
    grid = {("mnist", "H"): {"divergence": narrow, "fedavg": wide, "icas": []},
            ("cifar10", "H"): {"divergence": wide[:1], "fedavg": narrow[:1], "icas": []}}      # no shade of one trial
    found = accuracy_common.smallest_shades("", grid, "divergence", ("fedavg", "icas"))
    assert found.verdict == "agrees"
    assert "in 1 of 1 panels" in found.measured
    assert found.measured.endswith("MNIST H: divergence 5.00, fedavg 10.00")
    grid["mnist", "0.8"] = {"divergence": wide, "fedavg": narrow, "icas": []}
    assert accuracy_common.smallest_shades("", grid, "divergence", ("fedavg", "icas")).verdict == "agrees in part"
    assert accuracy_common.smallest_shades("", {}, "divergence", ("fedavg",)).verdict == "not measured"


def test_a_spread_of_rounds_is_the_most_less_the_least() -> None:
    def runs(*rounds: int, reached: bool = True) -> list[Record]:
        return [ended(count, [], reached or count < 150) for count in rounds]

    assert accuracy_common.range_of_rounds(runs(40, 90, 70)) == 50
    assert accuracy_common.range_of_rounds(runs(40, 150, reached=False)) == math.inf
    grid = {("mnist", "H"): {"kmeans": runs(40, 90, 70), "fedavg": runs(40, 150, 60, reached=False)},
            ("mnist", "0.5"): {"kmeans": runs(40, 41), "fedavg": runs(40, 90)},      # two are too few
            ("mnist", "0.8"): {"kmeans": runs(1, 2, 30), "fedavg": runs(5, 6, 7)}}
    found = accuracy_common.smaller_spread("", grid, "kmeans", "fedavg")
    assert found.verdict == "agrees in part"
    assert found.measured.endswith("smaller in 1 of 2 panels with three trials: MNIST H 50 against one not reached; "
                                   "MNIST 0.8 29 against 2")


def test_a_statement_about_clusters_holds_after_every_k_or_in_part() -> None:
    from netsim.paper.divergence_accuracy import _findings, look_at

    def clusters(accuracy: list[float], last: list[int]) -> list[Any]:
        record = {"cluster": [0] * 4, "divergence": [1.0, 2.0, 3.0, 4.0], "accuracy": accuracy, "last_round": last}
        return [cluster for trial in (1, 2) for cluster in clusters_of(trial, record)]

    best = look_at(clusters([0.1, 0.2, 0.3, 0.4], [1, 1, 1, 1]))
    worst = look_at(clusters([0.4, 0.3, 0.2, 0.1], [9, 5, 3, 1]))
    assert best.best.startswith("so it is in 2 of 2 clusters (by chance 0.5); its gain over choosing at random is +15")
    assert (best.helps, worst.helps, worst.is_stale) == (True, False, True)
    assert worst.waited.endswith("+1.00")
    assert best.waited == "all have waited alike"
    assert [finding.verdict for finding in _findings({10: best})] == ["agrees", "differs"]
    assert [finding.verdict for finding in _findings({2: worst, 10: best})] == ["agrees in part", "differs"]
    assert "k = 2: so it is in 0 of 2" in _findings({2: worst, 10: best})[0].measured


def test_seeds_of_k_means_matter_where_one_moves_the_index() -> None:
    from netsim.paper.first_round import _seeds_matter

    steady, moved = Trial("mnist", "0.8", "fedavg", 10, 1), Trial("mnist", "H", "fedavg", 10, 1)
    by_seed: dict[Trial, Record] = {steady: {"ari_by_seed": [1.0, 1.0]}, moved: {"ari_by_seed": [0.5, 0.8]}}
    found = _seeds_matter(by_seed, 3)
    assert found.verdict == "agrees in part"
    assert found.measured.endswith("2 of 3 first rounds: MNIST 0.8 1.000 (within a first round by up to 0.00); "
                                   "MNIST H 0.650 (within a first round by up to 0.30)")
    assert _seeds_matter({}, 3).verdict == "not measured"


def test_theorem_1_holds_inside_the_cpus_range_and_budgets_are_left_at_the_fastest_clock(tmp_path: Path) -> None:
    """One layout with ample budgets, worked out from its plan; and the verdicts over a few layouts."""
    report = theorem1(Context(tmp_path / "paper", quick=True))
    assert [finding.verdict for finding in report.findings[:4]] == ["agrees", "agrees in part", "agrees", "agrees"]
    for row in report.rows:
        assert row["ends"] == row["devices"]
        assert row["free_spent"] == row["free"]
        assert row["spent"] >= row["devices"] - row["at_fastest"]
    ample = [row for row in report.rows if row["budget_mj"] == 50.0]
    assert sum(row["spent"] for row in ample) < sum(row["devices"] for row in ample)
