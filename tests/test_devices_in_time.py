"""Whole runs of devices that go off, crash and lose uploads: the same faults for all, resumed, and always an end."""

import json

import numpy as np
import polars as pl
import pytest
from small_scenario import CRASH, ON_OFF, TWENTY_PHONES

from netsim import load_scenario, simulate
from netsim.environment.availability import AvailabilityModel
from netsim.trace.journal import Journal

LOSS = "population.phone.loss={probability=0.3,tries=2}"
TROUBLE = [ON_OFF, CRASH, LOSS, 'population.phone.battery={dist="uniform",low="60 mJ",high="300 mJ"}']


def scenario_of(*changes):
    return load_scenario("paper", [*TWENTY_PHONES, *changes])


def play(*changes, seed=3, **more):
    return simulate(scenario_of(*changes), seed=seed, learning=False, **more)


LIVING = ['cell.fading={model="rayleigh",coherence="10 ms"}', "rounds.over_budget=drop", "rounds.deadline=800ms",
          'population.phone.mobility={model="random-waypoint",speed="30 m/s",every="20 ms"}']


@pytest.mark.parametrize("more", [[], LIVING], ids=["a still cell", "everything at once"])
@pytest.mark.parametrize("sharing", ["planned", "equal", "adaptive", "tdma"])
def test_a_run_in_trouble_keeps_its_books(sharing, more):
    run = play(*TROUBLE, f"allocation.sharing={sharing}", *more)
    jobs, spans = run.jobs, run.spans.filter(pl.col("device") >= 0)
    assert {"arrived", "lost"} <= set(jobs["outcome"])
    assert (spans["name"] == "off").any()
    band = run.events.filter(pl.col("name") == "bandwidth")["value"]
    assert band.max() <= 20e6 * (1 + 1e-9)
    worked = spans.filter(pl.col("job") >= 0).group_by("job").agg(
        *((pl.col("t1") - pl.col("t0")).filter(pl.col("name") == name).sum().alias(name)
          for name in ("compute", "upload")),
        pl.col("energy_j").sum().alias("spent_j")).join(jobs, on="job")
    assert worked["compute"].to_numpy() == pytest.approx(worked["compute_s"].to_numpy(), abs=1e-9)
    assert worked["upload"].to_numpy() == pytest.approx(worked["upload_s"].to_numpy(), abs=1e-9)
    assert worked["spent_j"].to_numpy() == pytest.approx(worked["energy_j"].to_numpy(), abs=1e-9)
    whole = jobs["compute_s"] + jobs["wait_s"] + jobs["upload_s"]
    assert whole.to_numpy() == pytest.approx((jobs["t1"] - jobs["t0"]).to_numpy(), abs=1e-9)
    totals = run.breakdown().totals
    assert totals["compute_s"] + totals["upload_s"] + totals["wait_s"] == pytest.approx(totals["makespan_s"])
    assert run.critical_path().length_s == pytest.approx(totals["makespan_s"], rel=1e-12)
    spent = jobs.group_by("device").agg(pl.col("energy_j").sum()).join(run.devices, on="device")
    assert (spent["energy_j"] <= spent["battery_j"] * (1 + 1e-9)).all()


def test_nobody_is_chosen_who_is_off():
    run = play(ON_OFF)
    faults = AvailabilityModel.of(scenario_of(ON_OFF), 3)
    for t0, devices in run.jobs.group_by("t0").agg("device").iter_rows():
        assert faults.available(t0)[devices].all()


def test_two_methods_meet_the_same_faults():
    """Whatever is decided, the spans in which a device was off are pieces of the same absences."""
    faults = AvailabilityModel.of(scenario_of(*TROUBLE), 3)
    seen = 0
    for method in ("sao", "equal"):
        away = play(*TROUBLE, f"allocation.method={method}").spans.filter(pl.col("name") == "off")
        for device, t0, t1 in away.select("device", "t0", "t1").iter_rows():
            assert faults.absences(device, (t0 + t1) / 2)
            assert faults.back_at(device, t0) == pytest.approx(t1) or t1 < faults.back_at(device, t0)
        seen += away.height
    assert seen > 4


class PowerCutError(BaseException):
    """The machine stops here."""


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["allocation.sharing=equal"], ["rounds.deadline=300ms"]])
def test_a_run_goes_on_after_every_aggregation(tmp_path, monkeypatch, more):
    """Cut after each round in turn, it leaves the same bytes."""
    monkeypatch.setattr("netsim.session.rows_a_part", lambda trains: 1)
    whole = play(*TROUBLE, *more, out=tmp_path / "whole")
    commit = Journal.commit
    for last in range(1, whole.last_round):
        def cut(journal, round, *rest, last=last):
            commit(journal, round, *rest)
            if round == last:
                raise PowerCutError

        folder = tmp_path / f"cut{last}"
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "commit", cut)
            with pytest.raises(PowerCutError):
                play(*TROUBLE, *more, out=folder)
        again = play(*TROUBLE, *more, out=folder, resume=True)
        assert again.summary["trace_sha256"] == whole.summary["trace_sha256"]


def recorded(*intervals, work="pause"):
    on_off = ",".join(f"{{on={[a for a, _ in each]},off={[b for _, b in each]}}}" for each in intervals)
    return f'population.phone.availability={{model="recorded",work="{work}",intervals=[{on_off}]}}'


SMALL = ["population.phone.count=2", "selection.cohort=1", "selection.method=fedavg", "end.rounds=5"]


def test_where_nobody_is_there_the_round_waits():
    """Both are away until 5 s: the first round begins with waiting, which the trace shows."""
    change = recorded([(5.0, 1000.0)], [(7.0, 1000.0)])
    run = simulate(load_scenario("paper", [*SMALL, change]), seed=1, learning=False)
    first = run.rounds.row(0, named=True)
    assert first["t0"] == 0.0
    assert first["wait_s"] == pytest.approx(5.0)
    assert run.jobs["t0"][0] == 5.0
    waits = run.spans.filter((pl.col("name") == "wait") & (pl.col("device") == -1))
    assert waits.select("t0", "t1").rows() == [(0.0, 5.0)]
    assert run.summary["rounds"] == 5
    assert run.critical_path().length_s == pytest.approx(run.summary["simulated_s"])
    totals = run.breakdown().totals
    assert totals["compute_s"] + totals["upload_s"] + totals["wait_s"] == pytest.approx(totals["makespan_s"])


@pytest.mark.parametrize(("intervals", "rounds"), [
    (([(0.0, 0.3)], [(0.0, 0.3)]), range(1, 5)),        # nobody comes back
    (([], []), range(1)),                               # nobody ever comes
])
def test_a_population_that_does_not_come_back(intervals, rounds, netsim):
    """The run ends with what it has, and says so."""
    run = simulate(load_scenario("paper", [*SMALL, recorded(*intervals)]), seed=1, learning=False)
    assert run.summary["rounds"] in rounds
    words = [piece for change in [*SMALL, recorded(*intervals)] for piece in ("--set", change)]
    code, out, _ = netsim("run", "paper", "--seed", 1, "--no-learning", *words)
    assert code == 0
    assert "no device can take part any more" in out
    code, out, err = netsim("run", "paper", "--seed", 1, "--no-learning", "--json", *words)
    assert json.loads(out)["rounds"] in rounds
    assert "no device can take part any more" in err


def test_waiting_ends_with_the_time():
    change = recorded([(0.0, 0.3), (500.0, 600.0)], [(0.0, 0.3)], work="drop")
    run = simulate(load_scenario("paper", [*SMALL, change, "end.time=100s"]), seed=1, learning=False)
    assert run.summary["simulated_s"] < 100.0
    assert run.summary["rounds"] < 5


def test_devices_of_later_waves_may_have_gone():
    """All take part in the first round, in waves: who is off when its wave begins starts later, or not at all."""
    for work, outcome in (("pause", "arrived"), ("drop", "went off")):
        change = f'population.phone.availability={{model="on-off",on="300 ms",off="300 ms",work="{work}"}}'
        jobs = play(change, "rounds.first=all", "end.rounds=1").jobs
        assert outcome in set(jobs["outcome"])
        assert ("went off" in set(jobs["outcome"])) == (work == "drop")


def test_crashes_that_leave_no_time_to_work_end_in_time():
    """A crash every millisecond: nothing is ever done, and yet every round has an end."""
    run = play('population.phone.crash={every="1 ms",repair="1 ms"}', "end.rounds=2", "selection.cohort=2")
    assert set(run.jobs["outcome"]) == {"crashed"}


def test_a_deadline_passes_in_a_pause():
    run = play(recorded(*[[(0.0, 0.05), (9.0, 10.0)]] * 20), "rounds.deadline=1s", "end.rounds=1")
    assert set(run.jobs["outcome"]) == {"deadline"}
    assert run.rounds["round_s"][0] == pytest.approx(1.0)


@pytest.mark.parametrize("server", ["synchronous", "fedbuff"])
def test_a_population_that_dies_out_before_anything_arrives(server):
    """Not a run in which no device can take part: they did, until their batteries were empty."""
    run = play("population.phone.loss={probability=1.0,tries=1}", "population.phone.battery=40mJ",
               "rounds.first=cohort", "end.rounds=40", f"server.kind={server}",
               *(["server.buffer=2"] if server == "fedbuff" else []))
    assert "arrived" not in set(run.jobs["outcome"])
    assert run.summary["energy_j"] > 0.0
    assert run.last_round < 40


@pytest.mark.parametrize(("end", "jobs"), [("end.rounds=2", 200), ("end.time=1s", None)])
def test_a_server_that_does_not_wait_does_not_wait_for_ever(end, jobs):
    """Devices on mains whose uploads never get through: the run ends with nothing."""
    run = play("population.phone.loss={probability=1.0,tries=1}", "server.kind=fedbuff", "server.buffer=3", end)
    in_time = run.jobs.filter(pl.col("outcome") != "run over")
    assert set(in_time["outcome"]) == {"lost"}
    assert in_time.height == jobs if jobs else run.summary["simulated_s"] < 1.5


def test_what_a_device_without_a_plan_would_have_sent():
    """As many bits as all others, whatever the radio makes of Shannon's limit."""
    budget = 'population.phone.budget={dist="choice",values=["1 mJ","40 mJ"]}'
    run = play("cell.rate={efficiency=0.5}", budget)
    assert "infeasible" in set(run.jobs["outcome"])
    assert run.jobs["bits"].to_list() == pytest.approx([448e3] * run.jobs.height)


@pytest.mark.slow
def test_export_and_report_show_absences(netsim, tmp_path):
    run = play(*TROUBLE, out=tmp_path / "run")
    assert netsim("export", run.path, "--format", "perfetto", "--out", tmp_path / "trace.json")[0] == 0
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert any(event["name"] == "off" for event in events)
    slices = {}
    for event in events:
        if event["ph"] == "X" and not event["name"].startswith("round"):
            slices.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for own in slices.values():
        assert all(one[1] <= other[0] for one, other in zip(sorted(own), sorted(own)[1:], strict=False))
    away = int(run.spans.filter(pl.col("name") == "off")["round"][0])
    run.figure("gantt", away).savefig(tmp_path / "gantt.png")
    assert netsim("report", run.path, "--out", tmp_path / "page.html")[0] == 0
    assert '"off"' in (tmp_path / "page.html").read_text()


def test_nothing_is_drawn_that_nobody_asked_for():
    """Devices that are always there play the very same run, on the same draws."""
    plain = play().summary["trace_sha256"]
    always = play(recorded(*[[(0.0, 1e9)]] * 20)).summary["trace_sha256"]
    assert always == plain
    assert not AvailabilityModel.of(load_scenario("paper"), 0)
    assert np.all(AvailabilityModel.of(scenario_of(LOSS), 0).available(1.0))


def test_a_wait_in_vain_at_the_end_is_no_part_of_the_run():
    """Batteries run out while the last phones are away; the server waits for one that comes back empty."""
    run = play("population.phone.count=6", "selection.cohort=3", "end.rounds=5", "population.phone.battery=1 J",
               "population.phone.idle=1 W",
               'population.phone.availability={model="on-off",on="300 ms",off="2 s",work="pause"}', seed=4)
    assert run.summary["rounds"] == 2
    assert run.summary["simulated_s"] == pytest.approx(sum(run.summary["round_s"]), rel=1e-12)
