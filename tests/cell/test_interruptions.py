"""Devices that go off in mid-job, and uploads that are lost: exact instants, energy, and closed forms."""

import itertools
import math

import numpy as np
import pytest
import simpy
from hypothesis import example, given, settings
from hypothesis import strategies as st
from small_worlds import World, random_switches

from netsim.base.errors import InputError
from netsim.cell import job as records
from netsim.cell.availability import MOST_RESTARTS
from netsim.cell.schedulers import Adaptive, Equal, Tdma
from netsim.environment.availability import AvailabilityModel, OnOffProcess, Outage, OutageProcess
from netsim.scenario.time_varying import Loss


def goes(*edges, work="pause", why="availability", device=0):
    """A device that is there at first, and changes at these instants."""
    return OutageProcess(device, 1, Outage(why, work), lambda _: OnOffProcess(True, list(edges)))


def job(world, number=0):
    """The row of a job, by the number of its device."""
    jobs = world.part.jobs
    place = list(jobs["device"]).index(number)
    return {name: values[place] for name, values in jobs.items()}


def balanced(row):
    return row["compute_s"] + row["wait_s"] + row["upload_s"] == pytest.approx(row["t1"] - row["t0"])


@pytest.fixture
def world():
    return World()


# One device: 4 s of computing at 1 W, then 2 s of sending at 0.5 W.
WORK = {"cycles": 4e9, "bits": 2e6, "power_w": 0.5}


def test_computing_pauses_and_goes_on(world):
    assert world.play(world.device(**WORK), faults=AvailabilityModel(1, [goes(1.0, 3.0)])) == [
        ("compute", 0.0, 1.0), ("off", 1.0, 3.0), ("compute", 3.0, 6.0), ("upload", 6.0, 8.0)]
    row = job(world)
    assert (row["compute_s"], row["upload_s"], row["wait_s"]) == (4.0, 2.0, 2.0)
    assert row["energy_j"] == pytest.approx(5.0)
    assert row["outcome"] == "arrived"
    rows = world.part.rows
    spent = [joules for kind, joules in zip(rows["kind"], rows["energy_j"], strict=True) if kind == "span"]
    assert spent == pytest.approx([1.0, 0.0, 3.0, 1.0])


def test_sending_pauses_and_goes_on(world):
    assert world.play(world.device(**WORK), faults=AvailabilityModel(1, [goes(5.0, 7.5)])) == [
        ("compute", 0.0, 4.0), ("upload", 4.0, 5.0), ("off", 5.0, 7.5), ("upload", 7.5, 8.5)]
    row = job(world)
    assert (row["compute_s"], row["upload_s"], row["wait_s"], row["energy_j"]) == (4.0, 2.0, 2.5, pytest.approx(5.0))


def test_the_job_starts_over(world):
    """Off after 1 of 2 s of sending: all of it again, and what was spent is spent."""
    assert world.play(world.device(**WORK),
                      faults=AvailabilityModel(1, [goes(5.0, 7.0, work="restart", why="crash")])) == [
        ("compute", 0.0, 4.0), ("upload", 4.0, 5.0), ("off", 5.0, 7.0), ("compute", 7.0, 11.0), ("upload", 11.0, 13.0)]
    row = job(world)
    assert (row["compute_s"], row["upload_s"], row["wait_s"]) == (8.0, 3.0, 2.0)
    assert row["energy_j"] == pytest.approx(9.5)


@pytest.mark.parametrize(("work", "spans"), [
    ("pause", [("compute", 0.0, 4.0), ("off", 4.0, 7.0), ("upload", 7.0, 9.0)]),
    ("restart", [("compute", 0.0, 4.0), ("off", 4.0, 7.0), ("compute", 7.0, 11.0), ("upload", 11.0, 13.0)]),
    ("abort", [("compute", 0.0, 4.0), ("went off", 4.0)]),
])
def test_computing_that_ends_as_the_device_goes_off_has_ended(world, work, spans):
    assert world.play(world.device(**WORK), faults=AvailabilityModel(1, [goes(4.0, 7.0, work=work)])) == spans
    row = job(world)
    assert balanced(row)
    assert row["energy_j"] == pytest.approx(sum(t1 - t0 if name == "compute" else 0.5 * (t1 - t0)
                                                for name, t0, *rest in spans for t1 in rest if name != "off"))


def test_a_job_cancelled_as_its_computing_ends(world):
    """The order of the two events of that instant is that of their scheduling: here the cancellation comes first."""
    def impatient():
        yield world.env.timeout(4.0)
        cell.cancel([0], "too late")

    cell = world.open(world.device(**WORK))
    world.env.process(impatient())
    world.env.run(until=1.0)                        # the job starts after the other process's timer
    world.start(world.device(**{**WORK, "cycles": 3e9}))
    world.env.run()
    assert world.spans() == [("compute", 1.0, 4.0), ("too late", 4.0)]
    assert (job(world)["compute_s"], job(world)["upload_s"], job(world)["energy_j"]) == (3.0, 0.0, 3.0)


@pytest.mark.parametrize(("at", "energy_j", "parts"), [(1.0, 1.0, (1.0, 0.0)), (5.0, 4.5, (4.0, 1.0))])
@pytest.mark.parametrize(("why", "outcome"), [("availability", "went off"), ("crash", "crashed")])
def test_the_job_ends(world, at, energy_j, parts, why, outcome):
    spans = world.play(world.device(**WORK), faults=AvailabilityModel(1, [goes(at, 9.0, work="abort", why=why)]))
    assert spans[-1] == (outcome, at)
    row = job(world)
    assert (row["compute_s"], row["upload_s"]) == parts
    assert (row["energy_j"], row["outcome"], row["t1"]) == (pytest.approx(energy_j), outcome, at)


def test_who_never_comes_back_is_dropped(world):
    assert world.play(world.device(**WORK), faults=AvailabilityModel(1, [goes(1.0)])) == [("compute", 0.0, 1.0),
                                                                                          ("went off", 1.0)]


def test_an_end_at_the_instant_of_going_is_an_end(world):
    assert world.play(world.device(**WORK), faults=AvailabilityModel(1, [goes(6.0, 7.0, work="restart")])) == [
        ("compute", 0.0, 4.0), ("upload", 4.0, 6.0)]
    assert World().play(world.device(**WORK), faults=AvailabilityModel(1, [goes(4.0, 5.0)])) == [
        ("compute", 0.0, 4.0), ("off", 4.0, 5.0), ("upload", 5.0, 7.0)]


def test_who_is_off_at_the_start_begins_when_it_is_back(world):
    away = OutageProcess(0, 1, Outage("availability", "pause"), lambda _: OnOffProcess(False, [2.0]))
    assert world.play(world.device(**WORK), faults=AvailabilityModel(1, [away])) == [
        ("compute", 0.0, 0.0), ("off", 0.0, 2.0), ("compute", 2.0, 6.0), ("upload", 6.0, 8.0)]
    assert balanced(job(world))


def test_a_crash_in_a_pause_loses_the_work(world):
    """Away from 1 to 6 s, broken from 2 to 3 s: the second of computing is lost."""
    faults = AvailabilityModel(1, [goes(1.0, 6.0), goes(2.0, 3.0, work="restart", why="crash")])
    assert world.play(world.device(**WORK), faults=faults) == [
        ("compute", 0.0, 1.0), ("off", 1.0, 6.0), ("compute", 6.0, 10.0), ("upload", 10.0, 12.0)]


def test_a_job_that_always_starts_over_is_given_up(world):
    """A crash every second, four seconds of work: it would never end."""
    often = OutageProcess(0, 1, Outage("crash", "restart"),
                          lambda _: OnOffProcess(True, [0.5 * k for k in range(2, 5000)]))
    world.play(world.device(**WORK), faults=AvailabilityModel(1, [often]))
    assert job(world)["outcome"] == "crashed"
    assert job(world)["compute_s"] == pytest.approx(0.5 * (MOST_RESTARTS + 2), rel=0.01)


def test_a_job_away_after_its_last_restart_goes_on_when_its_device_is_back(world, monkeypatch):
    """Off from 1 to 3 s, the only restart allowed; neither a crash at 2 s nor a new start of the run aborts the job."""
    monkeypatch.setattr("netsim.cell.availability.MOST_RESTARTS", 1)
    faults = AvailabilityModel(1, [goes(1.0, 3.0, work="restart"), goes(2.0, 2.5, work="restart", why="crash")])
    assert world.play(world.device(**WORK), faults=faults) == [
        ("compute", 0.0, 1.0), ("off", 1.0, 3.0), ("compute", 3.0, 7.0), ("upload", 7.0, 9.0)]
    world.env = simpy.Environment()
    world.open(world.device(**WORK), faults=faults)
    world.start(world.device(**WORK))
    world.env.run(until=1.5)
    state = world.cell.snapshot()
    world.env = simpy.Environment(initial_time=1.5)
    world.open(world.device(**WORK), faults=faults)
    world.cell.restore(state)
    world.env.run()
    (again,) = world.cell.collect()
    assert (again.outcome, again.ended_at) == ("arrived", 9.0)
    assert again.segments[:2] == [("compute", 0.0, 1.0, 1.0), ("off", 1.0, 3.0, 0.0)]


def every_second(on_s):
    """A device that is on for the first ``on_s`` of each second, for an hour."""
    return AvailabilityModel(1, [goes(*(second + part for second in range(3600) for part in (on_s, 1.0)))])


def test_a_job_that_sees_no_end_is_refused(world, monkeypatch):
    """Six seconds of work in halves of a second have eleven interruptions; each takes CPU time."""
    monkeypatch.setattr(records, "MOST_CHANGES", 11)
    assert world.play(world.device(**WORK), faults=every_second(0.5))[-1] == ("upload", 11.0, 11.5)
    monkeypatch.setattr(records, "MOST_CHANGES", 5)
    with pytest.raises(InputError, match=r"5 interruptions until 6.5 s, with 0.75 of its cycles computed") as error:
        World().play(world.device(**WORK), faults=every_second(0.5))
    assert (error.value.code, error.value.key) == ("too-large", "the compute of device 0")


@pytest.mark.parametrize(("work", "phase"), [({"bits": 1e16}, "upload"), ({"cycles": 1e20}, "compute")])
def test_a_job_that_would_not_be_done_for_years_is_refused_at_once(world, work, phase):
    with pytest.raises(InputError, match=r"99\d interruptions until [\d.]+ s, with [\d.e-]+ of its") as error:
        world.play(world.device(**WORK | work), faults=every_second(0.5))
    assert (error.value.code, error.value.key) == ("too-large", f"the {phase} of device 0")


def test_the_band_of_a_paused_sender_is_divided_anew():
    """Two halves of 1 MHz, J = 1 MHz each: Q(1/2) = log2(3)/2 Mbit/s; alone, Q(1) = 1 Mbit/s."""
    world = World(scheduler=Equal())
    half = 0.5 * math.log2(3.0)
    rate = 1e5 * math.log2(1 + 1e6 / 1e5)
    first, second = (world.device(k, cycles=0.0, bits=2e6, rate=rate) for k in (0, 1))
    spans = world.play(first, second, faults=AvailabilityModel(2, [goes(1.0, 2.0)]))
    uploads = sorted(span[1:] for span in spans if span[0] == "upload")
    left = 2.0 - half                           # of the first at 1 s, and of the second, which sends 1 Mbit more
    both = (left - 1.0) / half                  # from 2 s on together, until the second is done
    last = 1.0 * (left - both * half)           # the first goes on alone
    assert uploads == [(0.0, 1.0), (0.0, pytest.approx(2.0 + both)), (2.0, pytest.approx(2.0 + both + last))]


def test_others_in_a_queue_are_served_meanwhile():
    """The whole band for one at a time: the second has its turn while the first is away, which then waits for it."""
    world = World(scheduler=Tdma())
    rate = 1e5 * math.log2(1 + 1e6 / 1e5)
    devices = [world.device(k, cycles=k * 1e8, bits=1e6, rate=rate) for k in (0, 1)]
    spans = world.play(*devices, faults=AvailabilityModel(2, [goes(0.5, 0.75)]))
    assert [(name, round(t0, 9), round(t1, 9)) for name, t0, t1 in spans] == [
        ("compute", 0.0, 0.0), ("compute", 0.0, 0.1), ("wait", 0.1, 0.5), ("upload", 0.0, 0.5), ("off", 0.5, 0.75),
        ("upload", 0.5, 1.5), ("wait", 0.75, 1.5), ("upload", 1.5, 2.0)]
    rows, links = world.part.rows, set(zip(world.part.links["src"], world.part.links["dst"], strict=True))
    at = {(name, round(t0, 9)): seq for seq, (name, t0) in enumerate(zip(rows["name"], rows["t0"], strict=True))}
    assert {(at["wait", 0.1], at["upload", 0.5]), (at["upload", 0.5], at["upload", 1.5])} <= links
    assert all(src < dst for src, dst in links)


def test_a_pause_in_the_queue_costs_the_turn():
    world = World(scheduler=Tdma())
    rate = 1e5 * math.log2(1 + 1e6 / 1e5)
    devices = [world.device(k, cycles=k * 1e8, bits=1e6, rate=rate) for k in (0, 1, 2)]
    spans = world.play(*devices, faults=AvailabilityModel(3, [goes(0.5, 0.75, device=1)]))
    uploads = [span for span in spans if span[0] == "upload"]
    assert [round(end, 9) for _, _, end in uploads] == [1.0, 2.0, 3.0]
    assert ("off", 0.5, 0.75) in spans
    assert [job(world, k)["t1"] for k in range(3)] == pytest.approx([1.0, 3.0, 2.0])


def test_a_battery_drains_only_at_work(world):
    """5.5 J: 4 for computing, a second of sending (1 W), a pause, and half a second more."""
    device = world.device(cycles=4e9, bits=2e6, battery_j=5.5)
    assert world.play(device, faults=AvailabilityModel(1, [goes(5.0, 9.0)])) == [
        ("compute", 0.0, 4.0), ("upload", 4.0, 5.0), ("off", 5.0, 9.0), ("upload", 9.0, 9.5), ("battery empty", 9.5)]
    assert world.batteries.left_j[0] == 0.0
    assert job(world)["energy_j"] == pytest.approx(5.5)


def test_a_budget_counts_what_was_lost(world):
    """6 J: computing twice takes 4, of 2 s of sending (1 W) one was before the crash, so that one is left."""
    device = world.device(cycles=2e9, bits=2e6, budget_j=6.0)
    world.play(device, abort_over_budget=True, faults=AvailabilityModel(1, [goes(3.0, 4.0, work="restart")]))
    assert job(world)["outcome"] == "over budget"
    assert (job(world)["t1"], job(world)["energy_j"]) == (pytest.approx(7.0), pytest.approx(6.0))


def test_a_budget_is_not_spent_in_a_pause(world):
    device = world.device(cycles=2e9, bits=2e6, budget_j=4.0)
    world.play(device, abort_over_budget=True, faults=AvailabilityModel(1, [goes(3.0, 9.0)]))
    assert (job(world)["outcome"], job(world)["t1"]) == ("arrived", 10.0)


def losing(*lost, tries=4):
    """Uploads of device 0 that are lost, one after the other."""
    class Chosen(AvailabilityModel):
        def loses(self, device, number):
            return device == 0 and number < len(lost) and lost[number]

    return Chosen(2, losses=[(range(1), Loss(probability=0.5, max_attempts=tries))], keys=[0, 1])


def test_a_lost_upload_is_sent_again(world):
    assert world.play(world.device(**WORK), faults=losing(True, True)) == [
        ("compute", 0.0, 4.0), ("upload", 4.0, 6.0), ("upload", 6.0, 8.0), ("upload", 8.0, 10.0)]
    row = job(world)
    assert (row["upload_s"], row["wait_s"], row["outcome"]) == (6.0, 0.0, "arrived")
    assert row["energy_j"] == pytest.approx(7.0)


def test_after_so_many_tries_it_is_lost(world):
    assert world.play(world.device(**WORK), faults=losing(True, True, tries=2)) == [
        ("compute", 0.0, 4.0), ("upload", 4.0, 6.0), ("upload", 6.0, 8.0), ("lost", 8.0)]
    assert job(world)["outcome"] == "lost"


def test_a_lost_upload_takes_part_in_the_sharing_anew():
    """Two alike end together at t; the first has to send all again, and has then the whole band."""
    world = World(scheduler=Adaptive())
    rate = 1e5 * math.log2(1 + 1e6 / 1e5)
    devices = [world.device(k, cycles=0.0, bits=1e6, rate=rate, budget_j=1e9) for k in (0, 1)]
    world.play(*devices, faults=losing(True))
    together = 1.0 / (0.5 * math.log2(3.0))
    assert job(world, 1)["t1"] == pytest.approx(together, rel=1e-6)
    assert job(world, 0)["t1"] == pytest.approx(together + 1.0, rel=1e-6)


def test_a_battery_pays_for_each_try(world):
    world.play(world.device(cycles=1e9, bits=1e6, battery_j=2.5), faults=losing(True))
    row = job(world)
    assert (row["outcome"], row["t1"], row["energy_j"]) == ("battery empty", 2.5, pytest.approx(2.5))


# Closed forms, over many devices at once: each is on a stream of its own.

def mean_times(why, on_s, off_s, work, work_s, count=4000, *, from_on):
    """Seconds that so much computing takes, for devices begun in the stationary law, or for those that are there."""
    world = World(most_devices=count)
    switches = random_switches(why, 11, count, on_s, off_s)
    faults = AvailabilityModel(count, [OutageProcess(0, count, Outage(why, work), switches.__getitem__)])
    chosen = [k for k in range(count) if not from_on or switches[k].on(0.0)]
    world.play(*(world.device(k, cycles=work_s * 1e9, bits=1e-9, bandwidth_hz=1.0, rate=1.0) for k in chosen),
               faults=faults)
    times = np.array(world.part.jobs["t1"])
    return times.mean(), 4 * times.std() / math.sqrt(len(times))


@pytest.mark.slow
@pytest.mark.parametrize(("why", "on_s", "off_s", "work", "from_on", "takes_s"), [
    ("availability", 60.0, 20.0, "pause", False, 45.0),           # (1 - pi) m0 + w (1 + m0/m1)
    ("crash", 50.0, 10.0, "restart", True, 49.3271),                 # (e^(l w) - 1)(1/l + R)
    ("crash", 50.0, 10.0, "pause", True, 36.0),                   # w (1 + l R)
])
def test_thirty_seconds_of_work(why, on_s, off_s, work, from_on, takes_s):
    mean, error = mean_times(why, on_s, off_s, work, 30.0, from_on=from_on)
    assert mean == pytest.approx(takes_s, abs=error)
    assert error < 0.06 * takes_s


@pytest.mark.slow
def test_tries_cost_what_the_formula_says():
    """q = .2 and four tries: (1 - q^4)/(1 - q) = 1.248 times the time and energy of one, .9984 of them delivered."""
    count = 20_000
    world = World(most_devices=count)
    faults = AvailabilityModel(count, losses=[(range(count), Loss(probability=0.2, max_attempts=4))], seed=2,
                               keys=range(count))
    world.play(*(world.device(k, cycles=0.0, bandwidth_hz=1.0, bits=1.0, rate=1.0) for k in range(count)),
               faults=faults)
    jobs = world.part.jobs
    uploads = np.array(jobs["upload_s"])
    assert uploads.mean() == pytest.approx(1.248, abs=4 * uploads.std() / math.sqrt(count))
    assert np.array(jobs["energy_j"]).mean() == pytest.approx(uploads.mean())
    delivered = np.mean([outcome == "arrived" for outcome in jobs["outcome"]])
    assert delivered == pytest.approx(0.9984, abs=4 * math.sqrt(0.9984 * 0.0016 / count))


# Whatever happens.

def a_world(draw_seed, scheduler, work):
    """Six devices, all of whose troubles come every second or so."""
    world = World(scheduler=scheduler)
    rng = np.random.default_rng(draw_seed)
    devices = [world.device(
        k, cycles=rng.uniform(0, 3e9), bits=rng.uniform(1e5, 2e6), battery_j=math.inf if k % 2 else rng.uniform(1, 9),
        budget_j=50.0) for k in range(6)]
    switches = {why: random_switches(why, draw_seed, 6, 2.0, 0.5) for why in ("availability", "crash")}
    presences = [OutageProcess(0, 6, Outage(why, how), own.__getitem__)
                 for (why, own), how in zip(switches.items(), work, strict=True)]
    faults = AvailabilityModel(6, presences, [(range(6), Loss(probability=0.3, max_attempts=3))], draw_seed, range(6))
    return world, devices, faults


SCHEDULERS = st.sampled_from([Equal, Tdma, Adaptive, type(World().scheduler)])
WORKS = st.tuples(*[st.sampled_from(["pause", "restart", "abort"])] * 2)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), SCHEDULERS, WORKS)
def test_the_books_balance(seed, scheduler, work):
    world, devices, faults = a_world(seed, scheduler(), work)
    world.play(*devices, faults=faults)
    rows, jobs = world.part.rows, world.part.jobs
    spans = [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
    for place, number in enumerate(jobs["job"]):
        own = [row for row in spans if row["kind"] == "span" and row["job"] == number]
        length = {name: sum(row["t1"] - row["t0"] for row in own if row["name"] == name)
                  for name in ("compute", "upload", "wait", "off")}
        assert length["compute"] == pytest.approx(jobs["compute_s"][place], abs=1e-9)
        assert length["upload"] == pytest.approx(jobs["upload_s"][place], abs=1e-9)
        assert length["wait"] + length["off"] == pytest.approx(jobs["wait_s"][place], abs=1e-9)
        assert sum(row["energy_j"] for row in own) == pytest.approx(jobs["energy_j"][place], abs=1e-9)
        assert length["compute"] + length["upload"] == pytest.approx(jobs["energy_j"][place], abs=1e-9)      # 1 W
        assert all(one["t1"] == other["t0"] for one, other in itertools.pairwise(own))
        assert sum(row["kind"] == "instant" and row["job"] == number for row in spans) == (
            jobs["outcome"][place] != "arrived")
    assert (world.batteries.left_j >= 0.0).all()
    assert not world.uplink.band.sending
    assert not world.uplink.band.waiting
    band = [row["value"] for row in spans if row["name"] == "bandwidth"]
    assert max(band, default=0.0) <= 1e6 * (1 + 1e-9)
    assert band[-1:] in ([], [0.0])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), SCHEDULERS, WORKS, st.floats(0.1, 6.0))
@example(61, Equal, ("pause", "restart"), 5.635519549873364)      # an ulp later, from another moment on
def test_jobs_taken_up_again_end_as_they_would_have(seed, scheduler, work, until):
    """A snapshot in mid-work, paused jobs and all: rows of data, so that the rest happens as if nothing had."""
    def play(broken):
        world, devices, faults = a_world(seed, scheduler(), work)
        world.open(*devices, faults=faults)
        world.start(*devices)
        world.env.run(until=until)
        ended = []
        if broken:
            ended, state, levels = world.cell.collect(), world.cell.snapshot(), world.batteries.snapshot()
            world, devices, faults = a_world(seed, scheduler(), work)
            world.env = simpy.Environment(initial_time=until)
            world.open(*devices, faults=faults)
            world.batteries.restore(levels)
            world.cell.restore(state)
        world.env.run()
        return {job.device: (job.ended_at, job.energy_j, job.work.compute_s, job.work.upload_s, job.outcome,
                             job.segments)
                for job in (*ended, *world.cell.collect())}

    whole, pieces = play(broken=False), play(broken=True)
    assert pieces == whole
