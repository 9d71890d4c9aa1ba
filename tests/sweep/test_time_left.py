"""The time that points will still take, from what others took: small sets with answers worked out by hand."""

from pathlib import Path

import pytest

from netsim.scenario import load_scenario
from netsim.sweep.points import SweepPoint, SweepProgress
from netsim.sweep.progress import describe
from netsim.sweep.time_left import TimeLeft


def point(name: str, cohort: int = 10, rounds: int = 11, learning: bool = False, **more: str) -> SweepPoint:
    """A hundred devices; effort without learning: 100 for the first round, and the cohort for each later one."""
    scenario = load_scenario("paper", [f"selection.cohort={cohort}", f"end.rounds={rounds}",
                                       *(f"{key}={value}" for key, value in more.items())])
    return SweepPoint(scenario, 1, Path("nowhere", f"{name}.json"), Path("nowhere", name), learning=learning)


def took(seconds: float, rounds: int = 11) -> dict[str, float]:
    return {"rounds": rounds, "seconds": seconds}


def test_nothing_is_said_before_anything_was_gained() -> None:
    left = TimeLeft([], [point("a")])
    assert (left.part_done, left.seconds_left(5.0)) == (0.0, None)


def test_the_first_round_counts_for_all_its_devices() -> None:
    one = point("a")
    left = TimeLeft([], [one])
    left.at_round(one.record, 1)              # 100 of 200 device rounds
    assert left.part_done == pytest.approx(0.5)
    assert left.seconds_left(7.0) == pytest.approx(7.0)


def test_a_cell_with_more_devices_is_expected_to_take_longer() -> None:
    small, large = point("small"), point("large", cohort=50)
    left = TimeLeft([], [small, large])
    left.ended(small.record, took(20))        # 200 device rounds; the other has 600
    assert left.seconds_left(20.0) == pytest.approx(60.0)
    assert left.part_done == pytest.approx(0.25)


def test_a_method_that_chooses_how_many_is_taken_to_choose_half() -> None:
    left = TimeLeft([], [rra := point("rra", **{"selection.method": "rra"}), point("fedavg")])
    left.ended(rra.record, took(60))          # 100 + 10 * 50 device rounds; the other has 200
    assert left.seconds_left(60.0) == pytest.approx(20.0)


def test_two_at_a_time_take_half_as_long() -> None:
    points = [point(name) for name in "abcd"]
    left = TimeLeft([], points)
    for ended in points[:2]:
        left.ended(ended.record, took(20))
    assert left.seconds_left(20.0) == pytest.approx(20.0)


def test_cells_that_ended_early_are_a_measure_for_others() -> None:
    early, running = point("early", rounds=31), point("running", rounds=31)
    left = TimeLeft([], [early, running])
    left.ended(early.record, took(20, rounds=11))       # 200 device rounds in 20 s
    left.at_round(running.record, 6)                    # 150 of the 200 that it is expected to take
    assert left.part_done == pytest.approx(350 / 400)
    assert left.seconds_left(35.0) == pytest.approx(5.0)


def test_until_a_target_was_reached_the_time_is_an_upper_bound() -> None:
    points = [point(name, learning=True, **{"learning.target_accuracy": "0.9"}) for name in "ab"]
    left = TimeLeft([], points)
    left.at_round(points[0].record, 1)
    assert left.at_most
    assert describe(SweepProgress(0, 0, 2, 0.25, 30.0, left.at_most)) == "0 of 2 points, at most 30 s left"
    left.ended(points[0].record, took(10, rounds=5))
    assert not left.at_most
    assert describe(SweepProgress(1, 0, 2, 0.5, 10.0, left.at_most)) == "1 of 2 points, about 10 s left"
    assert not TimeLeft([], [point("without")]).at_most


def test_each_dataset_has_its_own_pace() -> None:
    slow, fast = {"learning.dataset": "mnist"}, {"learning.dataset": "digits"}
    points = [point(f"{place}{kind['learning.dataset']}", learning=True, **kind)
             for place, kind in enumerate((slow, fast, slow, fast, fast))]
    left = TimeLeft([], points)
    left.ended(points[0].record, took(90))
    left.ended(points[1].record, took(10))
    assert left.seconds_left(100.0) == pytest.approx(90 + 10 + 10)


def test_what_an_earlier_call_played_is_not_gained_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one, other = point("one"), point("other")
    one.run.mkdir(parents=True)
    (one.run / "run.json").write_text('{"round": 1}')   # half of it
    left = TimeLeft([], [one, other])
    assert left.part_done == pytest.approx(0.25)
    left.ended(one.record, took(10))                    # the other half, so 20 s a point
    assert left.seconds_left(10.0) == pytest.approx(20.0)


def test_a_cell_that_failed_neither_counts_nor_waits() -> None:
    failed, one, other = point("failed"), point("one"), point("other")
    left = TimeLeft([], [failed, one, other])
    left.failed(failed.record)
    assert left.seconds_left(1.0) is None
    left.ended(one.record, took(20))
    assert left.seconds_left(21.0) == pytest.approx(21.0)
    left.failed(other.record)
    assert (left.part_done, left.seconds_left(22.0)) == (1.0, 0.0)


def test_what_was_finished_before_fills_the_bar_and_not_the_estimate() -> None:
    before, one, other = point("before"), point("one"), point("other")
    left = TimeLeft([before], [one, other])
    assert left.part_done == pytest.approx(1 / 3)
    left.ended(one.record, took(20))
    assert left.part_done == pytest.approx(2 / 3)
    assert left.seconds_left(20.0) == pytest.approx(20.0)


def test_no_cells_are_done() -> None:
    assert TimeLeft([], []).part_done == 1.0
