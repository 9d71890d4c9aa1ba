"""Whole runs under servers that do not wait: budgets, bad input, and going on after a cut with jobs under way."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from netsim import load_scenario, simulate
from netsim.base.errors import InputError
from netsim.selection import METHODS as SELECTION
from netsim.server.asynchronous_strategies import FedBuff
from netsim.validation import validate

KINDS = {
    "fedbuff": ["server.kind=fedbuff", "server.buffer=3"], "fedasync": ["server.kind=fedasync"],
    "port": ["server.kind=port", "server.buffer=3"], "window": ["server.kind=window", "server.period=40ms"],
    "first-k": ["server.kind=first-k", "server.buffer=3"],
}


@pytest.fixture
def quick_folder():
    with TemporaryDirectory() as name:
        yield Path(name)


@pytest.mark.parametrize("sharing", ["planned", "equal", "adaptive", "tdma"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_plays_under_every_discipline_and_no_job_is_over_its_budget(kind, sharing):
    run = simulate(load_scenario("lab", [*KINDS[kind], f"allocation.sharing={sharing}", "end.rounds=12",
                                         "selection.cohort=8"]), seed=4)
    assert run.summary["rounds"] == 12
    jobs = run.jobs
    if kind != "first-k":        # whose cohorts are planned together, for bands that stay as they are planned
        assert (jobs["energy_j"] <= jobs["budget_j"] * (1 + 1e-9)).all()
    assert jobs["energy_j"].sum() == pytest.approx(run.summary["energy_j"])
    assert (jobs["staleness"] >= 0).all()
    assert run.rounds["t1"].to_list()[-1] == run.summary["simulated_s"]
    assert (jobs["outcome"] == "arrived").sum() == run.rounds["arrived"].sum()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fedbuff", *(pytest.param(kind, marks=pytest.mark.slow) for kind in [*KINDS][1:])])
@pytest.mark.parametrize("more", [
    ["allocation.sharing=equal", "population.phone.battery=90mJ"], pytest.param([], marks=pytest.mark.extended)])
def test_a_run_that_is_cut_off_at_any_aggregation_goes_on_to_the_same_trace(kind, more, quick_folder, monkeypatch):
    """A clock that was rounded from another moment on would show: at the bit that nobody sees, in one cut of ten."""
    monkeypatch.setattr("netsim.trace.journal.ROWS_A_PART", 1)
    scenario = load_scenario("lab", [*KINDS[kind], *more, "end.rounds=25", "population.phone.count=12"])
    whole = simulate(scenario, quick_folder / "whole", seed=2)
    for cut in range(1, whole.summary["rounds"], 6):
        def stop(at, cut=cut):
            if at.round == cut:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            simulate(scenario, quick_folder / f"cut{cut}", seed=2, progress=stop)
        again = simulate(scenario, quick_folder / f"cut{cut}", seed=2, resume=True)
        assert again.summary["trace_sha256"] == whole.summary["trace_sha256"], f"cut after {cut}"
        assert again.summary["energy_j"] == whole.summary["energy_j"]


DIGITS = ("learning.dataset=digits", "learning.model=mnist-cnn")


@pytest.mark.parametrize(("changes", "code", "key"), [
    (["server.kind=first-k", "server.buffer=6"], "conflict", "server.buffer"),
    (["server.kind=fedbuff", "server.concurrency=6"], "more-than-devices", "server.concurrency"),
    (["server.kind=fedbuff", "server.buffer=3000000"], "more-than-devices", "server.buffer"),
    (["server.kind=fedbuff", "server.buffer=6"], "more-than-devices", "server.buffer"),
    (["server.kind=port", "server.freshness=0.0"], "out-of-range", "server.freshness"),
    (["server.kind=fedbuff", "rounds.deadline=1s"], "no-effect", "rounds.deadline"),
    ([*DIGITS, "server.kind=fedasync", "learning.aggregation=mean"], "no-effect", "learning.aggregation"),
    ([*DIGITS, "server.kind=fedasync", "learning.fedl=0.1"], "no-effect", "learning.fedl"),
])
def test_a_scenario_that_does_not_fit_its_server_is_refused(changes, code, key):
    with pytest.raises(InputError) as error:
        validate(load_scenario("tiny", changes), learning=False)
    assert (error.value.code, error.value.key) == (code, key)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("changes", "said"), [
    (["server.kind=fedbuf"], "fedbuf"), (["server.kind=fedbuff", "server.bufer=3"], "server.bufer"),
    (["server.kind=fedbuff", "server.buffer=0"], "server.buffer"), (["server.kind=first-k"], "server.buffer"),
    (["server.kind=fedasync", "server.mixing=1.5"], "server.alpha"),
    (["server.kind=fedasync", "server.mixing=0.0"], "server.alpha"),
    (["server.kind=fedasync", "server.staleness=cubic"], "polynomial"),
    (["server.kind=fedasync", 'server.staleness={kind="polynomial",a=-1.0}'], "staleness.a"),
    (["server.kind=fedasync", 'server.staleness={kind="hinge",b=-1.0}'], "staleness.b"),
    (["server.kind=fedasync", 'server.staleness={kind="polynomial",b=1.0}'], "staleness.b"),
    (["server.kind=fedasync", 'server.staleness={kind="polynomial",a=inf}'], "server.staleness"),
    (["server.kind=fedasync", 'server.staleness={kind="hinge",a=0.0}'], "server.staleness"),
    (["server.kind=fedasync", 'server.staleness={kind="hinge",c=1.0}'], "staleness.c"),
    (["server.kind=fedasync", "server.staleness={a=1.0}"], "server.staleness"),
    (["server.kind=fedbuff", "server.rate=0.0"], "server.server_lr"),
    (["server.kind=fedbuff", "server.normalise=sum"], "server.normalise"),
    (["server.kind=window"], "server.period"), (["server.kind=window", "server.period=2"], "server.period"),
    (["server.kind=fedbuff", "server.concurrency=3", "selection.cohort=2"], "cohort"),
    (["server.kind=window", "server.period=1s", "rounds.wait=2s"], "wait"),
    (["server.kind=fedbuff", "rounds.first=all"], "rounds.first"),
])
def test_bad_options_and_idle_keys_are_refused(changes, said):
    with pytest.raises(InputError) as error:
        validate(load_scenario("tiny", changes), learning=False)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


BARRIER = ("divergence", "kmeans", "cluster-round-robin", "icas", "rra", "favor", "fedcs", "k-center", "tifl")


def test_methods_that_put_a_cohort_together_need_a_server_that_waits():
    """As the guide lists them."""
    needing = {name for name in SELECTION if getattr(SELECTION.find(name), "barrier", False)}
    assert needing == {*BARRIER, "rra-as-run"}
    scenario = load_scenario("tiny", KINDS["fedbuff"])
    for method in BARRIER:
        chosen = scenario.model_copy(update={"selection": scenario.selection.model_copy(update={"method": method})})
        with pytest.raises(InputError) as error:
            FedBuff(buffer=3).check(chosen, SELECTION.find(method))
        assert (error.value.code, error.value.key) == ("conflict", "selection.method")


@pytest.mark.parametrize("kind", ["fedbuff", "window"])
def test_nobody_ever_fits(kind):
    with pytest.raises(InputError) as error:
        simulate(load_scenario("tiny", [*KINDS[kind], "population.node.budget=1uJ"]))
    assert (error.value.code, error.value.key) == ("infeasible", "population")


def test_a_device_that_fits_the_whole_band_but_not_its_part_of_it_is_left_out():
    changes = ["server.kind=fedasync", "population.node.budget=4.5 mJ", "end.rounds=8"]
    run = simulate(load_scenario("tiny", changes))
    left_out = run.jobs.filter(run.jobs["outcome"] == "infeasible")
    assert set(left_out["device"]) == {4}
    assert set(run.jobs.filter(run.jobs["outcome"] == "arrived")["device"]) == {0, 1, 2, 3}
    assert simulate(load_scenario("tiny", [*changes, "allocation.sharing=tdma"])).summary["dropped"] == 0


def test_a_device_without_a_plan_has_the_budget_that_its_part_of_the_downlink_leaves():
    """Receiving in one of four parts takes four times as long: the budget of the job is less by that."""
    changes = ["server.kind=fedasync", "server.concurrency=4", "population.node.budget=4.5 mJ", "end.rounds=4",
               "cell.downlink={power='1 W', reception='20 mW'}"]
    scenario = load_scenario("tiny", changes)
    run = simulate(scenario)
    left_out = run.jobs.filter(run.jobs["outcome"] == "infeasible").row(0, named=True)
    snr_hz = left_out["gain"] * 1.0 / scenario.cell.noise_w_per_hz
    hz = float(scenario.cell.bandwidth)
    receives_s = 4 * left_out["bits"] / (hz * np.log2(1 + snr_hz / hz))
    assert left_out["budget_j"] == pytest.approx(4.5e-3 - 0.02 * receives_s, rel=1e-9)


def test_selection_says_who_starts_next():
    run = simulate(load_scenario("tiny", ["server.kind=fedasync", "server.concurrency=2", "end.rounds=10",
                                          "selection.method=round-robin"]))
    assert run.jobs.sort("job")["device"].to_list()[:6] == [0, 1, 2, 3, 4, 0]
    assert np.unique(run.jobs["device"]).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("base", ["street", "tdma"])
def test_a_cut_where_channels_change_or_plans_have_slots(base, quick_folder, monkeypatch):
    monkeypatch.setattr("netsim.trace.journal.ROWS_A_PART", 1)
    scenario = load_scenario(base, ["selection.method=fedavg", *KINDS["fedbuff"], "end.rounds=8"])

    def stop(at):
        if at.round == 4:
            raise KeyboardInterrupt

    whole = simulate(scenario, quick_folder / "whole", seed=2, learning=False)
    with pytest.raises(KeyboardInterrupt):
        simulate(scenario, quick_folder / "cut", seed=2, learning=False, progress=stop)
    again = simulate(scenario, quick_folder / "cut", seed=2, learning=False, resume=True)
    assert again.summary["trace_sha256"] == whole.summary["trace_sha256"]


LOST = """
base = "tiny"
[server]
kind = "KIND"
buffer = 8
[[population]]
name = "node"
availability = { model = "recorded", intervals = [EDGES], on_interrupt = "abort" }
[[population]]
name = "lost"
count = 3
cpu = { min = "0.5 GHz", max = "2 GHz", cycles_per_sample = 10_000, capacitance = 1e-28 }
radio = { power = "100 mW" }
budget = "6 mJ"
samples = 100
loss = { probability = 1.0, max_attempts = 1 }
"""


@pytest.mark.parametrize("until_s", [0.0005, 0.08])
@pytest.mark.parametrize("kind", ["fedbuff", "port"])
def test_a_buffer_that_never_fills_is_aggregated_after_a_hundred_jobs_that_fail_in_a_row(kind, until_s, tmp_path):
    """Five devices are available until a certain time; the uploads of three others are always lost."""
    edges = ", ".join([f"{{ on = [0], off = [{until_s}] }}"] * 5)
    (tmp_path / "lost.toml").write_text(LOST.replace("KIND", kind).replace("EDGES", edges))
    run = simulate(load_scenario(tmp_path / "lost.toml", ["end.rounds=2"]), seed=1, learning=False)
    assert [arrived > 0 for arrived in run.rounds["arrived"]] == [until_s > 0.01, False]
    for number in (1, 2):
        outcomes = run.jobs.filter(run.jobs["round"] == number).sort("t1", "job")["outcome"].to_list()
        after = outcomes[::-1].index("arrived") if "arrived" in outcomes else len(outcomes)
        assert 100 <= after <= 100 + 8
