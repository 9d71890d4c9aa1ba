"""Problems for which a good lambda of `fedl` is known, and the largest one by brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from netsim.allocation import Problem, sao
from netsim.allocation.fedl import solve
from netsim.allocation.fedl_dual import FedlDual


def world(rng: np.random.Generator) -> Problem:
    """A few devices of the paper's kind; powers, work and CPUs may differ much."""
    size = int(rng.integers(1, 13))
    loss_db = 128.1 + 37.6 * np.log10(0.3 * np.sqrt(rng.random(size))) + rng.normal(0, 8, size)
    spread = rng.choice([0.0, 0.5, 1.5])
    slowest = 10 ** rng.uniform(7.5, 9, size)
    return Problem(
        bits=448e3 * 10 ** (spread * rng.normal(size=size) / 2), cycles=10 ** rng.uniform(7.5, 8.5, size),
        capacitance=1e-28, gain=10 ** (-loss_db / 10), power_w=0.1 * 10 ** (spread * rng.normal(size=size)),
        budget_j=1.0, cpu_min_hz=slowest, cpu_max_hz=slowest * 10 ** rng.uniform(0, 2, size),
        bandwidth_hz=float(10 ** rng.uniform(5.5, 7.5)), noise_w_per_hz=4e-21)


def with_a_good_weight(rng: np.random.Generator, room: float | None = None) -> tuple[Problem, float]:
    """A problem whose budgets are kept with this weight, with so much room relatively."""
    problem, weight = world(rng), float(10 ** rng.uniform(-4, 3))
    more = 1.0 + (float(10 ** rng.uniform(-9, -1)) if room is None else room)
    return replace(problem, budget_j=solve(problem, weight).device_energy_j * more), weight


def largest_by_scan(problem: Problem, points: int = 4000) -> tuple[float, float]:
    """Round and weight of the shortest good round by brute force: a fine scan, each dip of the excess refined."""
    market = FedlDual.of(problem)
    soonest = max(sao.solve(problem).round_s, market.soonest)
    latest = max(soonest, market.idle.round_s)

    def excess(rounds: np.ndarray) -> np.ndarray:
        at = market.balance(rounds, market.idle)
        return (market.energy(at) / problem.budget_j).max(axis=1) - 1.0 - 1e-12

    # finer towards the shortest round, where lambda changes most
    t = soonest + (latest - soonest) * np.concatenate([[0.0], np.geomspace(1e-9, 1.0, points)])
    best = np.inf
    for _ in range(9):
        values = np.concatenate([excess(part) for part in np.array_split(t, max(1, len(t) // 200))])
        good = np.flatnonzero(values <= 0.0)
        end = int(good[0]) if good.size else len(t) - 1
        best = min(best, float(t[end])) if good.size else best
        slope = np.diff(values[:end + 1])
        dips = [k for k in range(1, end) if slope[k - 1] <= 0.0 <= slope[k]]              # a lower excess lies around
        pieces = [(t[k - 1], t[k + 1]) for k in dips] + ([(t[end - 1], t[end])] if good.size and end else [])
        if not pieces:
            break
        t = np.unique(np.concatenate([np.linspace(a, b, max(9, 600 // len(pieces))) for a, b in pieces]))
    if best == np.inf:
        return best, 0.0
    return best, market.balance(best, market.idle).weight if best > market.soonest * (1.0 + 1e-8) else np.inf
