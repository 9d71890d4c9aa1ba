"""Problems to test allocation methods with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from netsim.allocation import Plan, Problem
from netsim.allocation.infeasibility import budget_scaling


def paper_world(rng: np.random.Generator, size: int = 10, budget_j: float = 0.03, power_dbm: float = 22.0) -> Problem:
    """A cohort of the calibrated `paper` scenario: disc of 300 m, shadowing of 8 dB, 2 MHz a device."""
    loss_db = 128.1 + 37.6 * np.log10(0.3 * np.sqrt(rng.random(size))) + rng.normal(0, 8, size)
    return Problem(
        bits=448e3, cycles=5000 * rng.uniform(1e4, 3e4, size), capacitance=1e-28, gain=10 ** (-loss_db / 10),
        power_w=10 ** (power_dbm / 10 - 3), budget_j=budget_j, cpu_min_hz=0.2e9, cpu_max_hz=2e9,
        bandwidth_hz=2e6 * size, noise_w_per_hz=10 ** (-17.4 - 3),
    )


def wild_world(rng: np.random.Generator, size: int) -> Problem:
    """Anything goes: gains over 12 decades, idle CPUs, CPUs of one speed, computing that costs nothing."""
    slowest = 10 ** rng.uniform(7, 9, size)
    return Problem(
        bits=10 ** rng.uniform(3, 8, size),
        cycles=10 ** rng.uniform(6, 10, size) * (rng.random(size) > 0.15),
        capacitance=10 ** rng.uniform(-30, -26, size) * (rng.random(size) > 0.1),
        gain=10 ** rng.uniform(-16, -4, size), power_w=10 ** rng.uniform(-3, 1, size),
        budget_j=10 ** rng.uniform(-3, 3, size),
        cpu_min_hz=slowest, cpu_max_hz=slowest * np.where(rng.random(size) < 0.2, 1.0, 10 ** rng.uniform(0, 2, size)),
        bandwidth_hz=10 ** rng.uniform(4, 9), noise_w_per_hz=4e-21,
    )


def with_budgets(problem: Problem, room: float) -> Problem:
    """The problem with budgets that are ``room`` times the least that is feasible."""
    return replace(problem, budget_j=problem.budget_j * budget_scaling(problem) * room)


def check_constraints(problem: Problem, plan: Plan, *, budgets: bool = True) -> None:
    """Every constraint of problem (19) within 1e-9, nothing negative, nothing undefined."""
    for array in (plan.bandwidth_hz, plan.cpu_hz, plan.power_w, plan.compute_s, plan.upload_s, plan.device_energy_j):
        assert array.shape == (len(problem),)
        assert np.isfinite(array).all()
        assert not array.flags.writeable
    assert (plan.bandwidth_hz > 0).all()
    assert plan.bandwidth_used_hz <= problem.bandwidth_hz * (1.0 if plan.slots is None else 1 + 1e-12)
    assert (plan.cpu_hz >= problem.cpu_min_hz).all()
    assert (plan.cpu_hz <= problem.cpu_max_hz).all()
    assert plan.round_s == np.max(plan.end_s)
    assert (plan.start_s >= plan.compute_s * (1 - 1e-12)).all()
    if plan.slots is not None:
        check_slots(problem, plan)
    if budgets:
        assert (plan.device_energy_j <= problem.budget_j * (1 + 1e-9)).all()
        assert not plan.over_budget.any()


def check_slots(problem: Problem, plan: Plan) -> None:
    """From the slots alone: no breaks, every bit sent, the air time and the mean band as the plan says."""
    slots = plan.slots
    assert slots is not None
    rate = slots.hertz * np.log2(1 + problem.snr_hz[slots.device] / slots.hertz)
    for n in range(len(problem)) if len(problem) < 100 else range(0, len(problem), 997):
        own = slots.device == n
        t0_s, t1_s = slots.t0_s[own], slots.t1_s[own]
        lasts = t1_s - t0_s
        assert (lasts >= 0).all()
        assert (t0_s[1:] == t1_s[:-1]).all()
        rounding = 4e-16 * t1_s[-1] / plan.upload_s[n]              # of a clock that has come a long way
        assert lasts.sum() == pytest.approx(plan.upload_s[n], rel=1e-9 + rounding)
        assert (rate[own] * lasts).sum() == pytest.approx(problem.bits[n], rel=1e-9 + rounding)
        assert (slots.hertz[own] * lasts).sum() / lasts.sum() == pytest.approx(plan.bandwidth_hz[n], rel=1e-9) \
            or len(lasts) == 1
