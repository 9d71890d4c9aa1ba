from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest
from refused import refused

from netsim import load_scenario, simulate
from netsim.analysis.breakdown import long_first_round
from netsim.base.units import duration
from netsim.run import Run
from netsim.trace.recorder import Recorder
from netsim.trace.schema import SERVER


def test_the_parts_of_each_round_are_means_over_its_devices(two: Run) -> None:
    rounds = two.breakdown().rounds
    assert rounds["round_s"].to_list() == [6.0, 5.0]
    assert rounds["compute_s"].to_list() == [1.5, 1.5]
    assert rounds["upload_s"].to_list() == [3.0, 2.0]
    assert rounds["wait_s"].to_list() == [1.5, 1.5]
    assert rounds["cohort"].to_list() == [2, 3]
    assert rounds["dropped"].to_list() == [0, 1]


def test_energy_is_split_by_cause(two: Run) -> None:
    rounds = two.breakdown().rounds
    assert rounds["compute_j"].to_list() == [3.0, 3.0]
    assert rounds["upload_j"].to_list() == [1.5, 1.0]
    assert rounds["energy_j"].to_list() == [4.5, 4.0]


def test_the_band_is_used_as_far_as_it_was_on_lease(two: Run) -> None:
    # round 1: 0.25 MHz for 1 s, 0.75 for 1 s, 0.5 for 3 s of 1 MHz for 6 s; round 2: nothing recorded
    rounds = two.breakdown().rounds
    assert rounds["band_used"].to_list() == pytest.approx([2.5 / 6, 0.0])
    assert rounds["idle_band_s"].to_list() == pytest.approx([3.5, 5.0])
    assert rounds["silent_s"].to_list() == pytest.approx([1.0, 5.0])


def test_the_straggler_has_a_name_and_a_margin(two: Run) -> None:
    rounds = two.breakdown().rounds
    assert rounds["straggler_name"].to_list() == ["phone 0", "phone 1"]
    assert rounds["margin_s"].to_list() == [3.0, 3.0]
    assert rounds["last_together"].to_list() == [1, 1]


def test_devices_that_end_together_have_no_straggler(record: Callable[[Callable[[Recorder], None]], Run]) -> None:
    def play(recorder: Recorder) -> None:
        allocate = recorder.instant("allocate", SERVER, 0.0)
        ends = [recorder.span("compute", device, 0.0, 2.0, after=[allocate]) for device in (0, 1)]
        recorder.span("aggregate", SERVER, 2.0, 2.0, value=2, after=ends)
        recorder.span("round", SERVER, 0.0, 2.0, value=2)

    breakdown = record(play).breakdown()
    assert breakdown.rounds["straggler"].to_list() == [None]
    assert breakdown.rounds["last_together"].to_list() == [2]
    assert breakdown.devices["straggler_rounds"].sum() == 0


def test_devices_sum_over_their_rounds(two: Run) -> None:
    devices = two.breakdown().devices
    assert devices["name"].to_list() == ["phone 0", "phone 1", "Ada"]
    assert devices["rounds"].to_list() == [2, 2, 0]
    assert devices["dropped"].to_list() == [0, 0, 1]
    assert devices["compute_s"].to_list() == [3.0, 3.0, 0.0]
    assert devices["wait_s"].to_list() == [3.0, 3.0, 0.0]
    assert devices["most_j"].to_list() == [3.0, 2.75, 0.0]
    assert devices["straggler_share"].to_list() == [0.5, 0.5, 0.0]
    assert devices["battery_j"].to_list() == [10.0, 10.0, None]
    assert devices["left_j"].to_list() == [5.75, 5.75, None]


def test_energy_taken_is_what_the_batteries_lost(two: Run) -> None:
    powered = two.breakdown().devices.filter(pl.col("battery_j").is_not_null())
    assert (powered["battery_j"] - powered["left_j"]).to_list() == powered["energy_j"].to_list()


def test_totals_sum_to_the_makespan(two: Run) -> None:
    totals = two.breakdown().totals
    assert totals["makespan_s"] == 11.0
    assert totals["compute_s"] + totals["upload_s"] + totals["wait_s"] == totals["makespan_s"]
    assert totals["energy_j"] == 8.5
    assert totals["band_used"] == pytest.approx(2.5 / 11)


def test_one_round_shows_its_devices_the_slowest_first(two: Run) -> None:
    shown = two.breakdown().round(2)
    assert shown["device"].to_list() == [1, 0]
    assert shown["outcome"].to_list() == ["arrived", "arrived"]
    assert two.breakdown().only(round=1, device=1)["wait_s"].to_list() == [3.0]


def test_a_round_in_which_nobody_had_a_plan_takes_no_time(record: Callable[[Callable[[Recorder], None]], Run]) -> None:
    def play(recorder: Recorder) -> None:
        select = recorder.instant("select", SERVER, 0.0, value=1)
        recorder.instant("infeasible", 0, 0.0, after=[select])
        recorder.span("aggregate", SERVER, 0.0, 0.0, after=[select])
        recorder.span("round", SERVER, 0.0, 0.0)

    run = record(play)
    assert run.breakdown().totals["makespan_s"] == 0.0
    assert run.breakdown().totals["band_used"] == 0.0
    assert run.breakdown().rounds["dropped"].to_list() == [1]
    assert run.critical_path().length_s == 0.0


@pytest.mark.parametrize(("what", "number"), [("round", 3), ("round", 0), ("device", 9), ("device", -1)])
def test_an_unknown_round_or_device_is_named_with_what_there_is(two: Run, what: str, number: int) -> None:
    with refused("out-of-range", what):
        two.breakdown().only(**{what: number})


def test_a_first_round_that_dominates_is_named() -> None:
    run = simulate(load_scenario("lab", ["rounds.first=all", "rounds.first_infeasible=waves", "end.rounds=3"]))
    lengths = run.rounds["round_s"].to_list()
    said = long_first_round(run)
    assert said.startswith(f"{duration(lengths[0])} of {duration(sum(lengths))}, because all 100 devices take part")
    assert duration((lengths[1] + lengths[2]) / 2) in said
    assert long_first_round(simulate(load_scenario("lab", ["end.rounds=3"]))) == ""
