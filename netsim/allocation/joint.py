"""`sao-joint`: bandwidth, CPU frequency and a transmit power for each device, optimised together.

For a round of T seconds a device that computes for t has T - t to send and e - W/t^2 joules to send with (W = G U^2).
The best power spends all of both, p = (e - W/t^2)/(T - t), clipped to its range: below it the energy is not used up,
above it the need grows in proportion to the power. The bandwidth is then z ln 2 / ((T - t) s), where the spectral
efficiency s depends on the energy alone and is concave in the CPU frequency, as T - t is; so the product has one
maximum, and where the power is clipped the need still falls up to the crossing of time and energy and rises behind it.
Each device's optimum is thus one stationary point, clipped; and the sum of the needs falls with T.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np

from netsim import physics
from netsim.allocation import sao
from netsim.allocation.extremes import within_floats
from netsim.allocation.in_seconds import InSeconds
from netsim.allocation.problem import Infeasible, Plan, Problem, fill, plan_for
from netsim.allocation.roots import first_not_positive
from netsim.base.arrays import Floats
from netsim.base.errors import InputError


@within_floats
def solve(problem: Problem) -> Plan:
    """The shortest round over bandwidth, CPU frequency and each device's own power within its range."""
    devices = Devices.of(problem)
    others = _at_given_powers(problem)

    def overfull(round_s: float) -> float:
        return 1.0 - problem.bandwidth_hz / float(devices.need(round_s).bandwidth_hz.sum())

    soonest = float(np.max(devices.strong.fastest + devices.strong.upload_time(problem.bandwidth_hz)))
    need = devices.need(first_not_positive(overfull, soonest, min(plan.round_s for plan in others)))
    cpu_hz = np.clip(problem.cycles / need.compute_s, problem.cpu_min_hz, problem.cpu_max_hz)
    plan = plan_for(problem, fill(need.bandwidth_hz, problem.bandwidth_hz), cpu_hz, need.power_w)
    return min([plan, *others], key=lambda plan: plan.round_s)     # where a range is a point, they differ by rounding


def _at_given_powers(problem: Problem) -> list[Plan]:
    """The plans of `sao` at the least power, which has one if any has, at the greatest and at that of the problem."""
    low, high = problem.power_range_w
    plans = [sao.solve(problem.with_power(low))]
    for power_w in (high, np.clip(problem.power_w, low, high)):
        with contextlib.suppress(Infeasible, InputError):
            plans.append(sao.solve(problem.with_power(power_w)))
    return plans


@dataclass(frozen=True, eq=False)
class JointNeed:
    """The least bandwidth for a round, and the computing time and power that make it so."""

    compute_s: Floats
    power_w: Floats
    bandwidth_hz: Floats


@dataclass(frozen=True, eq=False)
class Devices:
    """A problem with power ranges, one array entry for each device."""

    weak: InSeconds       # at the least power
    strong: InSeconds     # at the greatest
    low_w: Floats
    high_w: Floats
    budget_j: Floats
    work: Floats          # W = G U^2: computing for t seconds costs W/t^2 joules
    least_j: Floats       # z ln 2 N0 / h: the energy that sending takes in unlimited bandwidth

    @classmethod
    def of(cls, problem: Problem, powers: tuple[Floats, Floats] | None = None) -> Devices:
        """The problem with its own power ranges, or with others; several for each device give a row each."""
        low, high = powers or problem.power_range_w
        strong = InSeconds.of(problem, high)
        return cls(
            weak=InSeconds.of(problem, low), strong=strong, low_w=low, high_w=high,
            budget_j=problem.budget_j, work=problem.compute_weight * np.square(problem.cycles),
            least_j=strong.nats * problem.noise_w_per_hz / problem.gain,
        )

    @np.errstate(divide="ignore", invalid="ignore", over="ignore")
    def need(self, round_s: float) -> JointNeed:
        """The best computing time and power of every device for a round of T seconds, and what it needs with them."""
        compute_s = self._stationary(round_s, self.weak.compute_time(round_s), self.strong.compute_time(round_s))
        time_left = round_s - compute_s
        energy_left = np.maximum(self.budget_j - self.work / np.square(compute_s), 0.0)
        power_w = np.clip(energy_left / time_left, self.low_w, self.high_w)
        upload_s = np.maximum(np.minimum(time_left, energy_left / power_w), 1e-300)
        fraction = self.least_j / (power_w * upload_s)
        return JointNeed(compute_s, power_w, self.strong.nats / (upload_s * physics.efficiency(fraction)))

    def _stationary(self, round_s: float, low: Floats, high: Floats) -> Floats:
        """Where (T - t) s(e - W/t^2) is largest between two computing times, by Newton inside the bracket.

        It rises at t while the balance of :meth:`_balance` is positive, which falls with t.
        """
        low = np.where(self._balance(round_s, high)[0] >= 0.0, high, low)      # rises all the way
        high = np.where(self._balance(round_s, low)[0] <= 0.0, low, high)      # falls from the start
        t = (low + high) / 2.0
        for _ in range(60):
            balance, slope = self._balance(round_s, t)
            low, high = np.where(balance > 0.0, t, low), np.where(balance > 0.0, high, t)
            guess = t - balance / slope
            previous, t = t, np.where((guess >= low) & (guess <= high), guess, (low + high) / 2.0)
            if (np.abs(t - previous) <= 1e-9 * np.minimum(t, np.abs(round_s - t)) + 4e-16 * t).all():
                break
        return t

    def _balance(self, round_s: float, t: Floats) -> tuple[Floats, Floats]:
        """What a longer computing time gains in energy to send with, less what it costs in time, and its derivative.

        With y = least/energy and v = s + y, ln s changes by 1/(v - 1) times ln energy, so (T - t) s is stationary
        where (d energy/dt) (T - t) = energy (v - 1).
        """
        energy = np.maximum(self.budget_j - self.work / np.square(t), 1e-300)
        growth = 2.0 * self.work / t**3
        y = self.least_j / energy
        s = physics.efficiency(y)
        rest = np.where(y < 1.0, s + y - 1.0, 0.0)                             # v - 1
        slope = -growth * (3.0 * (round_s - t) / t + 1.0 + rest + s / rest - y)
        return growth * (round_s - t) - energy * rest, slope
