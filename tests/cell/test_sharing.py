"""Bands that change in time: slots of a plan, played; and the band divided anew, with its promises."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.allocation import Plan, Problem, allocate, plan_in_slots
from netsim.allocation.equal_finish import shared_plan
from netsim.allocation.methods import check_plan
from netsim.allocation.planner import Wave
from netsim.base.errors import InputError
from netsim.cell.battery import Batteries
from netsim.cell.cell import SimulatedCell
from netsim.cell.device import Device
from netsim.cell.job import Interruption, Job, JobPlan, jobs_of
from netsim.cell.schedulers import SCHEDULERS, Planned
from netsim.cell.uplink import Uplink
from netsim.physics import Values
from netsim.server.replay import play_wave

sys.path.insert(0, str(Path(__file__).parents[1] / "allocation"))
from allocation_worlds import paper_world, with_budgets
from worlds_in_time import TWO_ALIKE, UNEQUAL, UNEQUAL_OPTIMUM

JOULES = 1e-9


def played(problem: Problem, plan: Plan, sharing: str = "planned") -> dict[str, np.ndarray]:
    """The jobs of a plan's round, by rising device, as columns."""
    jobs = play_wave(Wave(np.arange(len(problem)), problem, plan), SCHEDULERS.find(sharing)()).jobs
    order = np.argsort(jobs["device"])
    return {name: np.asarray(jobs[name])[order] for name in ("t1", "energy_j", "wait_s", "upload_s", "compute_s")}


@pytest.mark.parametrize("problem", [TWO_ALIKE, UNEQUAL, UNEQUAL_OPTIMUM], ids=["alike", "unequal", "unequal optimum"])
@pytest.mark.parametrize("method", ["tdma", "sao-adaptive"])
def test_slots_are_played_as_planned(problem: Problem, method: str) -> None:
    plan = allocate(problem, method)
    jobs = played(problem, plan)
    assert jobs["t1"] == pytest.approx(plan.end_s, rel=1e-9)
    assert jobs["upload_s"] == pytest.approx(plan.upload_s, rel=1e-9)
    assert jobs["energy_j"] == pytest.approx(plan.device_energy_j, rel=1e-9)


def opened(now: float) -> SimulatedCell:
    """Two mains-powered devices that share 1 MHz as planned."""
    env = simpy.Environment(initial_time=now)
    return SimulatedCell(env, Uplink(env, 1e6, Planned()), Batteries(env, np.full(2, np.inf)))


def two_with_slots() -> tuple[Problem, Plan]:
    """J = B = 1 MHz: a third of the band sends 2/3 Mbit/s, the whole of it 1 Mbit/s (2 Mbit each here)."""
    problem = replace(TWO_ALIKE, bits=2e6, budget_j=10.0)
    third = 1e6 / 3
    plan = plan_in_slots(problem, np.array([0, 0, 1]), np.array([1.0, 2.0, 4.0]), np.array([1e6, third, 1e6]),
                         np.array([1e9, 0.5e9]))
    return problem, plan


def test_a_plan_in_slots_by_hand() -> None:
    problem, plan = two_with_slots()
    assert plan.slots is not None
    assert plan.slots.table().tolist() == [
        pytest.approx([1.0, 2.0, 0, 1e6]), pytest.approx([2.0, 3.5, 0, 1e6 / 3]), pytest.approx([4.0, 6.0, 1, 1e6])]
    assert (plan.round_s, plan.bandwidth_used_hz) == (pytest.approx(6.0), pytest.approx(1e6))
    assert plan.bandwidth_hz == pytest.approx([(1e6 + 1.5e6 / 3) / 2.5, 1e6])
    assert plan.device_energy_j == pytest.approx([1.0 + 0.2 * 2.5, 0.25 + 0.2 * 2.0])
    jobs = played(problem, plan)
    assert jobs["t1"] == pytest.approx([3.5, 6.0])
    assert jobs["wait_s"] == pytest.approx([0.0, 2.0], abs=1e-12)      # ready at 2 s, its slot begins at 4 s


def test_a_scheduler_that_divides_the_band_itself_sees_the_slots() -> None:
    class Divides(Planned):
        fixed = False

    problem, plan = two_with_slots()
    jobs = play_wave(Wave(np.arange(2), problem, plan), Divides()).jobs
    assert jobs["t1"] == pytest.approx([3.5, 6.0])


def test_who_waits_for_its_slot_is_on_the_critical_path() -> None:
    problem, plan = two_with_slots()
    part = play_wave(Wave(np.arange(2), problem, plan))
    named = {(part.rows["name"][src], part.rows["device"][src], part.rows["name"][dst], part.rows["device"][dst])
             for src, dst in zip(part.links["src"], part.links["dst"], strict=True)}
    assert {("compute", 1, "wait", 1), ("wait", 1, "upload", 1)} <= named


def test_who_sends_for_longer_than_planned_keeps_its_share_and_the_next_one_waits() -> None:
    """The channel is half as good as the plan thought: the first needs 2 s more, and the second begins after it."""
    problem = replace(TWO_ALIKE, budget_j=10.0)
    plan = plan_in_slots(problem, np.array([0, 1]), np.array([1.0, 2.0]), np.full(2, 1e6), np.full(2, 1e9))
    worse = problem.gain * (2 ** (1 / 3) - 1)                      # 1/3 bit/s/Hz
    cell, jobs = opened(0.0), jobs_of(Wave(np.arange(2), problem, plan), worse)
    cell.submit(jobs)
    cell.env.run()
    assert [job.work.sent_from for job in jobs] == pytest.approx([1.0, 4.0])
    assert [job.ended_at for job in jobs] == pytest.approx([4.0, 7.0])


class BitPerHertz:
    def rate(self, hz: Values, snr_hz: Values) -> Values:
        return hz

    def bandwidth(self, rate: Values, snr_hz: Values) -> Values:
        return rate


@pytest.mark.parametrize("ends", ["its last bit", "its slot", "an interruption"])
@pytest.mark.parametrize("slotted", [True, False])
def test_a_job_whose_slot_does_not_fit_gets_the_rest_of_it_when_another_job_ends(ends: str, slotted: bool) -> None:
    """Device 0 sends with 0.6 MHz until 2 s; device 1 has 0.4 MHz, from 1 s on a slot of 0.8 MHz, which fits at 2 s."""
    env = simpy.Environment()
    uplink = Uplink(env, 1e6, Planned(), link=BitPerHertz())
    devices = [Device(env, uplink), Device(env, uplink)]
    bits = 1.2e6 if ends == "its last bit" else 9e6
    jobs = [Job(JobPlan(0.0, 1e9, 0.0, amount, 0.1, bandwidth_hz=hz), 1e6, device=place)
            for place, (amount, hz) in enumerate([(bits, 0.6e6), (1.6e6, 0.4e6)])]
    jobs[0].slots = [(2.0, 0.0), (0.0, 0.6e6)] if ends == "its slot" else [(0.0, 0.6e6)] if slotted else None
    jobs[1].slots = [(1.0, 0.8e6), (0.0, 0.4e6)]
    uplink.follow_slots(jobs)
    for device, job in zip(devices, jobs, strict=True):
        env.process(device.perform(job))
    env.run(until=2.0)
    if ends == "an interruption":
        devices[0].interrupt(Interruption("crashed"))
    env.run(until=10.0)
    assert jobs[1].ended_at == pytest.approx(3.0)            # 0.8 Mbit until 2 s, 0.8 Mbit with 0.8 MHz


@pytest.mark.parametrize("moment", [0.0, 0.7, 1.5, 2.5, 3.7, 4.5])
def test_jobs_with_slots_can_be_saved_and_taken_up_again(moment: float) -> None:
    problem, plan = two_with_slots()

    whole, jobs = opened(0.0), jobs_of(Wave(np.arange(2), problem, plan), problem.gain)
    whole.submit(jobs)
    if moment:
        whole.env.run(until=moment)
    again = opened(moment)
    again.restore(whole.snapshot())
    again.env.run()
    whole.env.run()
    continued = sorted(again.collect(), key=lambda job: job.number)
    assert [job.ended_at for job in continued] == [job.ended_at for job in jobs] == pytest.approx([3.5, 6.0])


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.integers(0, 10_000), st.integers(1, 8), st.floats(1.01, 6.0), st.floats(0.1, 10.0),
       st.sampled_from(["sao", "equal"]))
def test_a_common_end_is_never_later_than_planned_and_within_every_budget(
    seed: int, size: int, room: float, heavy: float, method: str,
) -> None:
    problem = paper_world(np.random.default_rng(seed), size)
    problem = with_budgets(replace(problem, bits=problem.bits * heavy), room * (1 if method == "sao" else 20))
    plan = allocate(problem, method)
    jobs = played(problem, plan, "adaptive")
    assert jobs["t1"].max() <= plan.round_s * (1 + 1e-9)
    assert (jobs["energy_j"] <= problem.budget_j * (1 + JOULES)).all()
    assert jobs["wait_s"].max() <= 1e-12


@settings(deadline=None, max_examples=40, derandomize=True)
@given(st.integers(0, 10_000), st.integers(1, 8), st.floats(0.1, 10.0))
def test_where_nobody_computes_and_energy_is_ample_bands_that_change_gain_nothing(
    seed: int, size: int, heavy: float,
) -> None:
    """All are ready at 0: the bands of `sao` are the best at every moment, and a common end keeps them."""
    world = paper_world(np.random.default_rng(seed), size)
    problem = replace(world, cycles=np.zeros(size), bits=world.bits * heavy, budget_j=np.full(size, 1e3))
    plan = allocate(problem)
    jobs = played(problem, plan, "adaptive")
    assert jobs["t1"] == pytest.approx([plan.round_s] * size, rel=1e-9)
    slots = shared_plan(problem, plan, SCHEDULERS.find("adaptive")().bandwidth).slots
    assert slots is not None
    first = slots.t0_s == 0.0
    assert slots.hertz[first] == pytest.approx(plan.bandwidth_hz, rel=1e-6)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(st.integers(0, 10_000), st.integers(1, 8), st.sampled_from(["equal", "adaptive", "tdma"]))
def test_a_round_shared_without_a_simulation_is_the_one_simulated(seed: int, size: int, sharing: str) -> None:
    problem = with_budgets(paper_world(np.random.default_rng(seed), size), 1.5)
    plan = allocate(problem)
    shared = shared_plan(problem, plan, SCHEDULERS.find(sharing)().bandwidth)
    assert played(problem, plan, sharing)["t1"] == pytest.approx(shared.end_s, rel=1e-9)


def test_slots_of_ones_own_method_are_looked_at() -> None:
    problem, plan = two_with_slots()
    check_plan(plan, problem, "mylab:solve")
    slots = plan.slots
    assert slots is not None
    wrong = [
        (replace(slots, device=np.zeros(3, np.int64)), "not of every device"),
        (replace(slots, t0_s=slots.t0_s + np.array([0, 0.1, 0])), "slots out of order"),
        (replace(slots, hertz=np.array([1e6, -1.0, 1e6])), "each with some hertz"),
        (replace(slots, t0_s=slots.t0_s - np.array([0.5, 0, 0])), "before it has computed"),
        (replace(slots, hertz=np.array([1e6, 2e6, 1e6])), "Hz in all|2e"),
    ]
    for changed, message in wrong:
        with pytest.raises(InputError, match=message) as error:
            check_plan(replace(plan, slots=changed), problem, "mylab:solve")
        assert error.value.code == "wrong-answer"
