"""What analysis makes of runs in which jobs reach from one aggregation into the next."""

import json
from io import BytesIO
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim import load_scenario, simulate
from netsim.analysis.breakdown import break_down
from netsim.analysis.critical_path import find_critical_path
from netsim.analysis.perfetto import write_perfetto
from netsim.trace.overlap import held_within, seconds_within


@pytest.fixture(scope="module")
def run():
    return simulate(load_scenario("lab", ["server.kind=fedbuff", "server.buffer=3", "end.rounds=30",
                                          "allocation.sharing=equal"]), seed=1)


def test_seconds_within_by_hand():
    t0, t1 = np.array([0.0, 1.0, 5.0]), np.array([4.0, 2.5, 6.0])
    assert seconds_within(t0, t1, np.array([0.0, 2.0, 4.5]), np.array([2.0, 4.5, 5.5])) == pytest.approx([3, 2.5, 0.5])


def test_held_within_by_hand():
    t, value = np.array([1.0, 3.0, 4.0]), np.array([2.0, 0.0, 1.0])
    assert held_within(t, value, np.array([0.0, 2.0, 3.5]), np.array([2.0, 3.5, 6.0])) == pytest.approx([2, 2, 2])
    assert held_within(np.zeros(0), np.zeros(0), np.array([0.0]), np.array([1.0])) == pytest.approx([0])


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9)), min_size=1, max_size=20))
def test_seconds_within_add_up(spans):
    t0, t1 = np.array([min(span) for span in spans]), np.array([max(span) for span in spans])
    cuts = np.linspace(0.0, 9.0, 8)
    assert seconds_within(t0, t1, cuts[:-1], cuts[1:]).sum() == pytest.approx((t1 - t0).sum(), abs=1e-9)


def test_the_parts_of_a_round_sum_to_it_and_all_rounds_to_the_run(run):
    assert not run.in_rounds
    rounds = run.rounds
    assert (rounds["compute_s"] + rounds["upload_s"] + rounds["wait_s"]).to_numpy() == pytest.approx(
        rounds["round_s"].to_numpy(), abs=1e-12)
    # ten places are never free: in all, each part is what the jobs spent on it, divided by ten
    for part in ("compute", "upload", "wait"):
        assert rounds[f"{part}_s"].sum() == pytest.approx(run.jobs[f"{part}_s"].sum() / 10, rel=1e-9)


def test_who_delivered_how_often(run):
    jobs = run.jobs.filter(run.jobs["outcome"] == "arrived")
    devices = run.breakdown().devices
    assert devices["arrived"].sum() == jobs.height == run.rounds["arrived"].sum()
    over = run.jobs.filter(run.jobs["outcome"] == "run over")
    assert over.height == run.jobs.height - jobs.height > 0
    assert devices["dropped"].sum() == run.rounds["dropped"].sum() == run.summary["dropped"] == 0
    assert devices["energy_j"].sum() == pytest.approx(run.summary["energy_j"])


def test_the_band_in_use_is_what_was_sent_over_it(run):
    totals, spans = break_down(run).totals, run.spans
    uploads = spans.filter(spans["name"] == "upload")
    t = np.sort(np.concatenate([uploads["t0"], uploads["t1"]]))
    middle = (t[1:] + t[:-1]) / 2
    busy = ((uploads["t0"].to_numpy()[:, None] <= middle) & (middle < uploads["t1"].to_numpy()[:, None])).any(axis=0)
    assert totals["makespan_s"] - totals["silent_s"] == pytest.approx((t[1:] - t[:-1])[busy].sum(), rel=1e-9)
    assert totals["band_used"] == pytest.approx((totals["makespan_s"] - totals["silent_s"]) / totals["makespan_s"])


def test_the_critical_path_goes_through_the_jobs_that_aggregations_waited_for(run):
    path = find_critical_path(run)
    assert path.length_s == run.rounds["t1"][-1]
    steps = path.steps
    assert (steps["t0"].to_numpy()[1:] == steps["t1"].to_numpy()[:-1]).all()
    assert (path.causes["gain_s"] <= path.causes["seconds"] + 1e-12).all()
    fifth = find_critical_path(run, 5)
    jobs = run.jobs.filter(run.jobs["round"] == 5).sort("t1")
    assert fifth.steps["device"].to_list()[0] == jobs["device"][-1]      # who filled the buffer
    assert fifth.steps["t0"][0] == jobs["t0"][-1]
    assert fifth.end_s == run.rounds["t1"][4]
    assert fifth.slack["least_s"].to_list() == pytest.approx(sorted(jobs["t1"][-1] - jobs["t1"]), abs=1e-12)


@pytest.mark.slow
def test_a_run_without_rounds_that_wait_is_explained_from_its_start(run):
    told = run.explain(2, methods=False)
    assert (told.round, told.aggregations, told.round_s) == (None, 2, run.rounds["t1"][1])


def test_slices_in_perfetto_do_not_overlap(run):
    file = BytesIO()
    write_perfetto(run, file)
    tracks = {}
    for event in json.loads(file.getvalue())["traceEvents"]:
        if event["ph"] == "X" and event["pid"] >= 10:
            tracks.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    assert len(tracks) > 10
    for spans in tracks.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_arrows_in_perfetto_go_from_each_update_that_arrived_to_the_aggregation_that_took_it(run):
    file = BytesIO()
    write_perfetto(run, file)
    events = json.loads(file.getvalue())["traceEvents"]
    tails, heads = ({event["id"]: event["ts"] for event in events if event["ph"] == phase} for phase in "sf")
    arrived = run.jobs.filter(run.jobs["outcome"] == "arrived")
    assert len(tails) == len(heads) == arrived.height
    assert tails.keys() == heads.keys()
    ends = dict(zip(run.rounds["round"], run.rounds["t1"], strict=True))
    waits = sorted(round(1e6 * (ends[number] - t1)) for number, t1 in arrived.select("round", "t1").iter_rows())
    assert sorted(heads[key] - tails[key] for key in tails) == pytest.approx(waits, abs=2)
