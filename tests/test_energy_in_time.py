"""Whole runs with base load, harvest, throttled clocks, lost packets and a downlink: books, resuming, always an end."""

import json
import math

import numpy as np
import polars as pl
import pytest
from levels import slow
from scipy.stats import binomtest
from small_scenario import CRASH, ON_OFF, TWENTY_PHONES

from netsim import load_scenario, simulate
from netsim.base.errors import InputError
from netsim.devices.link_model import Downlink
from netsim.trace.journal import Journal
from netsim.trace.schema import BOOKS, CELL

ENERGY = ['population.phone.battery={dist="uniform",low="60 mJ",high="300 mJ"}', "population.phone.idle=0.1 W",
          'population.phone.harvest={dist="uniform",low="0.05 W",high="0.5 W"}']
DOWNLINK = 'cell.downlink={power="1 W",reception="50 mW"}'
THROTTLE = 'population.phone.throttle={after="20 ms",to="0.4 GHz",recovers="60 ms"}'
PACKETS = "population.phone.loss={probability=0.1,packets=448,tries=4}"
ALL = [*ENERGY, DOWNLINK, THROTTLE, PACKETS, ON_OFF, CRASH]
SERVERS = {"synchronous": [], "fedbuff": ["server.kind=fedbuff", "server.buffer=3"],
           "window": ["server.kind=window", "server.period=150ms"],
           "first-k": ["server.kind=first-k", "server.buffer=3"]}


def scenario_of(*changes):
    return load_scenario("paper", [*TWENTY_PHONES, *changes])


def play(*changes, seed=5, **more):
    return simulate(scenario_of(*changes), seed=seed, learning=False, **more)


# The books.

def last_counts(run, device):
    """What was last counted of a device, and when."""
    told = run.events.filter((pl.col("kind") == "counter") & (pl.col("device") == device))
    rows = {name: told.filter(pl.col("name") == name).row(-1, named=True) for name in ("battery", *BOOKS)}
    return {name: row["value"] for name, row in rows.items()}, rows["idle"]["t0"]


@pytest.mark.parametrize("sharing", ["planned", *slow(["equal", "adaptive", "tdma"])])
@pytest.mark.parametrize("server", SERVERS)
def test_every_joule_is_in_the_trace(server, sharing):
    run = play(*ALL, *SERVERS[server], f"allocation.sharing={sharing}")
    devices = dict(run.devices.select("device", "battery_j").iter_rows())
    spans = run.spans.filter(pl.col("job") >= 0)
    for device in run.jobs["device"].unique():
        counts, t = last_counts(run, device)
        spent_j = spans.filter((pl.col("device") == device) & (pl.col("t1") <= t))["energy_j"].sum()
        assert counts["battery"] == pytest.approx(
            devices[device] + counts["harvest"] - counts["idle"] - counts["spilt"] - spent_j, abs=1e-12)
        levels = run.events.filter((pl.col("name") == "battery") & (pl.col("device") == device))["value"]
        assert 0.0 <= levels.min() <= levels.max() <= devices[device]
    spent = spans.group_by("job").agg(pl.col("energy_j").sum().alias("spent_j")).join(run.jobs, on="job")
    assert spent["spent_j"].to_numpy() == pytest.approx(spent["energy_j"].to_numpy(), abs=1e-12)
    whole, _ = last_counts(run, CELL)
    after = run.jobs.filter(pl.col("outcome") == "run over")["energy_j"].sum()      # ended when the last was counted
    drawn = run.jobs["energy_j"].sum() - after
    assert whole["battery"] == pytest.approx(
        sum(devices.values()) + whole["harvest"] - whole["idle"] - whole["spilt"] - drawn, abs=1e-9 + after)
    totals = run.breakdown().totals
    assert [totals[f"{name}_j"] for name in BOOKS] == pytest.approx([whole[name] for name in BOOKS])
    assert sum(totals[f"{part}_s"] for part in run.parts) == pytest.approx(totals["makespan_s"])
    assert run.critical_path().length_s == pytest.approx(totals["makespan_s"])
    assert totals["download_j"] + totals["compute_j"] + totals["upload_j"] == pytest.approx(totals["energy_j"])


class PowerCutError(BaseException):
    """The machine stops here."""


@pytest.mark.parametrize("server", ["synchronous", "fedbuff"])
def test_a_run_goes_on_after_every_aggregation(tmp_path, monkeypatch, server):
    """Cut after each round in turn, it leaves the same bytes."""
    monkeypatch.setattr("netsim.session.rows_a_part", lambda trains: 1)
    changes = [*ALL, *SERVERS[server], "end.rounds=5"]
    whole = play(*changes, out=tmp_path / "whole")
    commit = Journal.commit
    for last in range(1, whole.last_round):
        def cut(journal, round, *rest, last=last):
            commit(journal, round, *rest)
            if round == last:
                raise PowerCutError

        with monkeypatch.context() as patch:
            patch.setattr(Journal, "commit", cut)
            with pytest.raises(PowerCutError):
                play(*changes, out=tmp_path / f"cut{last}")
        again = play(*changes, out=tmp_path / f"cut{last}", resume=True)
        assert again.summary["trace_sha256"] == whole.summary["trace_sha256"]


def test_two_methods_meet_the_same_sun_and_the_same_luck():
    """Devices that nobody has chosen have the same books; a device's first upload has as many packets."""
    def seen(method):
        run = play(*ENERGY, PACKETS, f"allocation.method={method}", "end.rounds=3")
        first = run.events.filter(pl.col("name") == "packets").group_by("device", maintain_order=True).agg(
            pl.col("value").first())
        idle = run.scan().filter((pl.col("name") == "harvest") & (pl.col("device") >= 0)).with_columns(
            watts=pl.col("value") / pl.col("t0")).collect()
        return dict(first.iter_rows()), dict(idle.select("device", pl.col("watts").round(9)).iter_rows())

    one, other = seen("sao"), seen("equal")
    both = one[0].keys() & other[0].keys()
    assert len(both) > 5
    assert {device: one[0][device] for device in both} == {device: other[0][device] for device in both}
    assert {device: one[1][device] for device in both} == {device: other[1][device] for device in both}


# Days and nights, and the end of energy.

NIGHT = ["population.phone.battery=100 mJ", "population.phone.idle=1 mW",
         'population.phone.charging={power="5 W",start="22:00",end="06:00"}']


def test_the_round_waits_for_the_charging_hours():
    """From noon on all are empty soon: the next round begins at 22:00, and the trace shows the wait."""
    run = play(*NIGHT, "rounds.starts_at=12:00", "end.rounds=40", "population.phone.count=6")
    waits = run.spans.filter((pl.col("name") == "wait") & (pl.col("device") == -1))
    assert waits.height
    night = waits["t1"][0]
    assert 10 * 3600 < night < 10 * 3600 + 1.0                                   # until they can pay for a job
    assert run.jobs.filter(pl.col("t0") >= night).height
    assert run.critical_path().length_s == pytest.approx(run.summary["simulated_s"])
    assert run.summary["rounds"] == 40


@pytest.mark.parametrize("server", ["fedbuff", "first-k"])
def test_other_servers_wait_for_energy_too(server):
    run = play(*NIGHT, *SERVERS[server], "rounds.starts_at=12:00", "end.rounds=30", "population.phone.count=6")
    assert run.summary["rounds"] == 30
    assert run.summary["simulated_s"] > 10 * 3600
    assert (run.rounds["arrived"] > 0).sum() > 20


def test_a_population_that_dies_out(netsim):
    """The base load alone empties all batteries: the run ends with what it has, and says so."""
    change = ["--set", "population.phone.battery=200 mJ", "--set", "population.phone.idle=0.5 W", "--set",
              "selection.method=fedavg", "--set", "rounds.first=cohort"]
    code, out, _ = netsim("run", "paper", "--seed", 1, "--no-learning", *change)
    assert code == 0
    assert "no device can take part any more" in out
    code, out, err = netsim("run", "paper", "--seed", 1, "--no-learning", "--json", *change)
    assert 0 < json.loads(out)["rounds"] < 10
    assert "no device can take part any more" in err


def test_batteries_that_never_hold_enough():
    with pytest.raises(InputError, match="no feasible device: no battery holds the minimum energy of a job"):
        play("population.phone.battery=1 uJ", "population.phone.harvest=1 W")


def test_who_is_there_has_no_energy_and_who_has_energy_is_off():
    """Away whenever it is charged, empty whenever it is there: no hang."""
    there = '{on=[43200.0],off=[64800.0]}'
    away = f'population.phone.availability={{model="recorded",period="24 h",intervals=[{",".join([there] * 6)}]}}'
    run = play("population.phone.battery=100 mJ", "population.phone.idle=1 W", away, "population.phone.count=6",
               'population.phone.charging={power="5 W",start="22:00",end="23:00"}', "end.rounds=3")
    assert run.summary["rounds"] == 0


def test_the_time_of_day_moves_the_hours():
    midnight, later = (play(*NIGHT, f"rounds.starts_at={clock}", "end.rounds=2").breakdown().totals["harvest_j"]
                       for clock in ("00:00", "12:00"))
    assert midnight > 0.0 == later


# The downlink.

def test_a_broadcast_lasts_as_long_as_the_worst_channel_needs():
    run = play(DOWNLINK)
    scenario = scenario_of(DOWNLINK)
    downlink = Downlink.of(scenario, 448e3)
    for round in range(1, 9):
        jobs = run.jobs.filter(pl.col("round") == round)
        spans = run.spans.filter((pl.col("round") == round) & (pl.col("name") == "download"))
        lasts_s = float(downlink.seconds(jobs["gain"].to_numpy())[0])
        assert (spans["t1"] - spans["t0"]).to_numpy() == pytest.approx(lasts_s)
        assert spans["energy_j"].to_numpy() == pytest.approx(0.05 * lasts_s)
    assert run.summary["breakdown"]["download"] > 0.0


@pytest.mark.parametrize("to", ["all", "each"])
@pytest.mark.parametrize("allocation", [["allocation.method=tdma"], *slow([
    ["allocation.method=sao-adaptive"], ["allocation.sharing=tdma"], ["allocation.sharing=adaptive"]])])
def test_bands_that_are_planned_by_time_wait_for_the_model(to, allocation):
    shared = [*allocation, "end.rounds=3", "selection.method=round-robin"]
    plain, later = play(*shared), play(*shared, f'cell.downlink={{power="1 W",to="{to}"}}')
    assert set(later.jobs["outcome"]) == {"arrived"}
    received = later.spans.filter(pl.col("name") == "download").group_by("round", maintain_order=True).agg(
        (pl.col("t1") - pl.col("t0")).max().alias("longest"))["longest"].to_numpy()
    longer = later.rounds["round_s"].to_numpy() - plain.rounds["round_s"].to_numpy()
    assert (longer <= received * (1 + 1e-9)).all()
    if to == "all":
        assert longer == pytest.approx(received)


def test_reception_is_kept_back_from_budget_and_battery():
    run = play(ENERGY[0], 'cell.downlink={power="0.1 W",reception="300 mW"}')
    known = run.jobs.join(run.devices.select("device", whole_j="budget_j"), on="device")
    assert (known["energy_j"] <= known["whole_j"] * (1 + 1e-9)).all()
    assert set(run.jobs["outcome"]) <= {"arrived", "infeasible"}


def test_plans_know_of_the_download_where_a_deadline_matters():
    """Nobody is sent off to miss it, and some are left out who would have been in time without a download."""
    slow, tight = 'cell.downlink={power="1 mW"}', "rounds.deadline=130ms"
    run = play(slow, tight)
    assert set(run.jobs["outcome"]) == {"arrived", "infeasible"}
    assert (run.rounds["round_s"] <= 0.13 * (1 + 1e-9)).all()
    assert run.summary["dropped"] > play(tight).summary["dropped"]


def test_without_a_key_there_is_no_download():
    assert "download_s" not in play().rounds.columns
    assert set(play().summary["breakdown"]) == {"compute", "upload", "wait"}


# Throttled clocks.

def test_a_throttled_run_takes_longer_and_less():
    plain, hot = play(), play(THROTTLE)
    assert hot.summary["simulated_s"] > plain.summary["simulated_s"]
    assert hot.breakdown().totals["compute_j"] < plain.breakdown().totals["compute_j"]
    slow = hot.spans.filter(pl.col("name") == "throttled")
    assert slow.height
    first = hot.spans.filter((pl.col("round") == 1) & (pl.col("name") == "compute"))
    assert (first["t1"] - first["t0"]).max() == pytest.approx(0.02)


@pytest.mark.parametrize("change", [THROTTLE, PACKETS, "population.phone.loss={probability=0.3,tries=40}", ON_OFF])
@pytest.mark.parametrize("method", ["tdma", *slow(["sao-adaptive"])])
def test_who_is_late_for_its_slot_still_gets_there(change, method):
    """The share of a last slot may be next to nothing; with it a round took hours."""
    run = play(change, f"allocation.method={method}", "end.rounds=3", seed=2)
    assert run.rounds["round_s"].max() < 2.0
    band = run.events.filter((pl.col("name") == "bandwidth") & (pl.col("device") == CELL))["value"]
    assert band.max() <= 20e6 * (1 + 1e-9)


# Packets and deadlines.

def test_the_number_of_packets():
    """n packets, each lost with q: n / (1 - q) in the mean, with a deviation of sqrt(n q) / (1 - q): 560 and 11.832."""
    run = play("population.phone.loss={probability=0.2,packets=448,tries=1000}", "end.rounds=50")
    packets = run.events.filter(pl.col("name") == "packets")["value"].to_numpy()
    assert len(packets) == run.jobs.height == 300
    assert set(run.jobs["outcome"]) == {"arrived"}
    deviation = math.sqrt(448 * 0.2) / 0.8
    assert deviation == pytest.approx(11.832, abs=1e-3)
    assert packets.mean() == pytest.approx(560.0, abs=4 * deviation / math.sqrt(300))
    assert packets.std() == pytest.approx(deviation, rel=4 / math.sqrt(600))
    plain = play("end.rounds=50").jobs.sort("job")
    ratio = run.jobs.sort("job")["upload_s"].to_numpy() / plain["upload_s"].to_numpy()
    assert np.sort(ratio) == pytest.approx(np.sort(packets) / 448)       # so many times as long, and as much energy


@pytest.mark.parametrize(("loss", "share"), [
    ("probability=0.001,packets=448,tries=1", 0.63876),      # 0.999^448
    ("probability=0.05,packets=448,tries=2", (1 - 0.05**2) ** 448),
])
def test_packets_that_are_not_repeated_without_end(loss, share):
    run = play(f"population.phone.loss={{{loss}}}", "end.rounds=100")
    assert share > 0.05
    arrived = run.jobs["outcome"].to_list().count("arrived")
    assert binomtest(arrived, run.jobs.height, share).pvalue > 1e-3


@pytest.mark.parametrize(("tries", "late"), [(1, 0.3), (2, 0.3**2), (3, 0.3**3)])
def test_the_share_that_misses_a_deadline(tries, late):
    """Uploads that take half of the time there is for so many tries: who loses all of them is late."""
    run = play("population.phone.loss={probability=0.3,tries=9}", "allocation.method=equal", "selection.cohort=1",
               "population.phone.count=40", "end.rounds=250", "population.phone.cpu.cycles_per_sample=1.0",
               "population.phone.samples=1", "cell.shadowing=0 dB", *deadline_of(tries))
    assert set(run.jobs["outcome"]) == {"arrived", "deadline"}
    missed = run.jobs["outcome"].to_list().count("deadline")
    assert binomtest(missed, run.jobs.height, late).pvalue > 1e-3


def deadline_of(tries):
    """All devices in one place, and as long as so many uploads take and a half."""
    places = ",".join(['["100 m","0 m"]'] * 40)
    gain = 10 ** -(12.81 + 3.76 * math.log10(0.1))
    rate = 20e6 * math.log2(1 + gain * 10**-0.7 / (20e6 * 10**-20.4))
    return [f"population.phone.places=[{places}]", f"rounds.deadline={(tries + 0.5) * 448e3 / rate * 1e3} ms"]


# Bad input.

@pytest.mark.parametrize("server", ["synchronous", "first-k"])
def test_a_deadline_shorter_than_any_compute(server):
    with pytest.raises(InputError, match=r"no feasible device: .*the deadline is 1 ms"):
        play("rounds.deadline=1 ms", *SERVERS[server])


def test_a_deadline_shorter_than_the_download():
    with pytest.raises(InputError, match=r"no feasible device: .*the deadline is 100 ms"):
        play("rounds.deadline=100 ms", 'cell.downlink={power="1 uW"}')


def test_a_reception_that_takes_all_of_a_budget():
    with pytest.raises(InputError, match="no feasible device: .*budget below the least possible energy"):
        play('cell.downlink={power="1 mW",reception="1 kW"}')


# Where it shows.

@pytest.mark.slow
def test_report_export_and_breakdown_show_it(netsim, tmp_path):
    run = play(*ALL, out=tmp_path / "run")
    assert netsim("export", run.path, "--format", "perfetto", "--out", tmp_path / "trace.json")[0] == 0
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {"download", "throttled", "idle", "harvest", "spilt", "packets"} <= {event["name"] for event in events}
    assert netsim("report", run.path, "--out", tmp_path / "page.html")[0] == 0
    page = (tmp_path / "page.html").read_text()
    assert all(word in page for word in ("drawn when idle", "lost with full batteries", '"throttled"', "download_s"))
    code, out, _ = netsim("breakdown", run.path)
    assert code == 0
    assert "download" in out
    assert "lost to full batteries" in out
    code, out, _ = netsim("breakdown", run.path, "--json")
    assert {"idle_j", "harvest_j", "spilt_j", "download_j"} <= json.loads(out)["totals"].keys()
    run.figure("gantt", 2).savefig(tmp_path / "gantt.png")
    run.figure("energy").savefig(tmp_path / "energy.png")
    plain = play(out=tmp_path / "plain")
    assert netsim("report", run.path, plain.path, "--out", tmp_path / "both.html")[0] == 0


def test_such_rounds_are_explained():
    """Played again they take as long as they took, or explain would refuse them."""
    found = play(*ENERGY, DOWNLINK, THROTTLE).explain(2, methods=False)
    assert found.what_if


def test_a_checked_scenario_says_what_it_has(netsim):
    words = [word for change in (*ENERGY, DOWNLINK, THROTTLE) for word in ("--set", change)]
    code, out, _ = netsim("check", "paper", *words)
    assert code == 0
    assert all(word in out for word in ("downlink", "idle", "harvest", "throttle"))
