"""Links to test with, and the shortest round over them by other means than netsim's: nested bisection, brute force."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from allocation_worlds import paper_world, wild_world, with_budgets

from netsim.allocation import Problem, Shannon

REAL = Shannon(efficiency=0.8, cap=5.55)


@dataclass(frozen=True)
class Steps:
    """Modulation and coding in steps: a signal-to-noise ratio from ``snr[k]`` on carries ``bits[k]`` bit/s/Hz.

    A wider band has a lower ratio, so that the rate falls where a step is lost: only its inverse never falls.
    """

    snr: tuple[float, ...] = (0.2, 1.0, 4.0, 20.0)
    bits: tuple[float, ...] = (0.15, 0.6, 1.6, 3.2)

    def rate(self, hz, snr_hz):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.divide(snr_hz, hz) * (1 + 1e-12)           # a step is reached but for rounding
        reached = np.searchsorted(self.snr, ratio, side="right")
        return np.where(np.asarray(hz) > 0, hz * np.concatenate([[0.0], self.bits])[reached], 0.0)

    def bandwidth(self, rate, snr_hz):
        hz = np.divide.outer(np.asarray(rate, float), self.bits)
        fits = hz <= np.divide.outer(np.asarray(snr_hz, float), self.snr) * (1 + 1e-13)
        return np.where(fits, hz, np.inf).min(axis=-1)


def random_problem(number: int, link: Shannon) -> Problem:
    """Cohorts of the paper's cell, strong and weak, and wild ones, with budgets from tight to ample."""
    rng = np.random.default_rng([28, number])
    size = int(rng.integers(1, 13))
    problem = wild_world(rng, size) if number % 3 == 2 else replace(
        paper_world(rng, size), bandwidth_hz=2e6 * size * 10 ** rng.uniform(-1, 1))
    return with_budgets(replace(problem, link=link), float(rng.choice([1 + 1e-6, 1.05, 4 / 3, 3.0, 100.0])))


def longest_upload(problem: Problem, round_s: float) -> np.ndarray:
    """The seconds that a round leaves each device to send, over all CPU frequencies: bisected where time and energy
    leave the same."""
    low, high = problem.cycles / problem.cpu_max_hz, problem.cycles / problem.cpu_min_hz

    def by_energy(t):
        joules = problem.capacitance * problem.cycles * np.square(problem.cycles / np.where(t > 0, t, 1.0))
        return (problem.budget_j - np.where(t > 0, joules, 0.0)) / problem.power_w

    for _ in range(60):
        t = (low + high) / 2
        more = by_energy(t) < round_s - t
        low, high = np.where(more, t, low), np.where(more, high, t)
    return np.maximum(np.minimum(round_s - low, by_energy(low)), np.minimum(round_s - high, by_energy(high)))


def shortest_round(problem: Problem, efficiency: float, cap: float) -> float:
    """The optimal round in seconds, nothing but bisections: of the CPU, of each bandwidth, of the round."""
    def rate(b):
        return efficiency * np.minimum(b * np.log1p(problem.snr_hz / b) / np.log(2), cap * b)

    def fits(round_s):
        seconds = longest_upload(problem, round_s)
        low, high = np.full(len(problem), 1e-9), np.full(len(problem), problem.bandwidth_hz)
        if not ((seconds > 0) & (rate(high) * seconds >= problem.bits)).all():
            return False
        for _ in range(70):
            b = np.sqrt(low * high)
            enough = rate(b) * seconds >= problem.bits
            low, high = np.where(enough, low, b), np.where(enough, b, high)
        return high.sum() <= problem.bandwidth_hz

    return first(fits)


def shortest_in_steps(problem: Problem, link: Steps) -> float:
    """The optimal round by brute force: every device at every step, the best of all combinations."""
    steps = np.array(list(product(range(len(link.bits)), repeat=len(problem))))
    bits, widest = np.array(link.bits)[steps], problem.snr_hz / np.array(link.snr)[steps]

    def fits(round_s):
        seconds = longest_upload(problem, round_s)
        hz = problem.bits / (bits * np.where(seconds > 0, seconds, 1e-300))
        return ((hz <= widest * (1 + 1e-13)).all(axis=1) & (hz.sum(axis=1) <= problem.bandwidth_hz * (1 + 1e-14))).any()

    return first(fits)


def first(fits) -> float:
    """The least round that fits; inf where none does."""
    low, high = 1e-9, 1e12
    if not fits(high):
        return np.inf
    while high / low > 1 + 4e-16:
        middle = np.sqrt(low * high) if high > 2 * low else (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if fits(middle) else (middle, high)
    return float(high)
