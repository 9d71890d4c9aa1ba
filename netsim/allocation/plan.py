"""The plan that an allocation method returns: bandwidths, CPU frequencies and powers with their times and energies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from netsim import physics
from netsim.allocation.problem import Problem
from netsim.base import html
from netsim.base.tolerances import CONSTRAINT, ROUNDING
from netsim.base.types import Bools, Floats, Ints, frozen


@dataclass(frozen=True, eq=False)
class Slots:
    """Bandwidths that change in time: one row per slot, ordered by device, then time; a device sends without a break.

    A device whose upload lasts longer than its last slot keeps that slot's bandwidth. In a time-varying cell (fading,
    availability, throttling, packet loss) it continues with its mean bandwidth.

    Parameters
    ----------
    t0_s, t1_s : array of float
        Start and end of each slot, in seconds from the start of the wave.
    device : array of int
        Position of the device in the problem.
    hertz : array of float
        Bandwidth in Hz.
    """

    t0_s: Floats
    t1_s: Floats
    device: Ints
    hertz: Floats

    def __len__(self) -> int:
        return len(self.device)

    @cached_property
    def start_s(self) -> Floats:
        """Start of each device's upload in seconds; shape (S,)."""
        return self.t0_s[np.flatnonzero(np.diff(self.device, prepend=-1))]

    @cached_property
    def most_hz(self) -> float:
        """Maximum bandwidth in use at one time, in Hz."""
        hair = ROUNDING * float(self.t1_s.max())
        times = np.concatenate([self.t0_s, np.maximum(self.t1_s - hair, self.t0_s)])
        change = np.concatenate([self.hertz, -self.hertz])
        order = np.lexsort((change, times))                # at one instant ends come before starts
        return float(np.cumsum(change[order]).max())

    def table(self) -> Floats:
        """Return the slots as one array with the columns t0, t1, device, hertz."""
        return np.column_stack([self.t0_s, self.t1_s, self.device, self.hertz])


@dataclass(frozen=True, eq=False)
class Plan:
    """Bandwidth, CPU frequency and power of each device, with the times and energies that follow, eqs. (5) to (11).

    An allocation method returns it; :func:`plan_for` and :func:`plan_in_slots` compute it. Arrays have shape (S,), in
    the order of the problem.

    Parameters
    ----------
    bandwidth_hz, cpu_hz, power_w : array of float
        Bandwidth in Hz (with `slots` its mean over the upload), CPU frequency in Hz, transmit power in W.
    compute_s, upload_s : array of float
        Computing and upload time in seconds.
    compute_energy_j, device_energy_j : array of float
        Energy in J for computing, and for computing and upload together.
    round_s : float
        Length of the round in seconds: the end of the last upload.
    energy_j : float
        Energy of all devices in J.
    over_budget : array of bool
        Devices that exceed their budget; only methods that weigh energy (`fedl`, `rra`) may return such plans.
    slots : Slots, optional
        Bandwidths that change in time.
    """

    bandwidth_hz: Floats
    cpu_hz: Floats
    power_w: Floats
    compute_s: Floats
    upload_s: Floats
    compute_energy_j: Floats
    device_energy_j: Floats
    round_s: float
    energy_j: float
    over_budget: Bools
    slots: Slots | None = None

    @property
    def start_s(self) -> Floats:
        """Start of each upload in seconds; shape (S,)."""
        return self.compute_s if self.slots is None else self.slots.start_s

    @property
    def end_s(self) -> Floats:
        """End of each upload in seconds; shape (S,)."""
        return self.start_s + self.upload_s

    @property
    def bandwidth_used_hz(self) -> float:
        """Maximum bandwidth in use at one time, in Hz."""
        return float(self.bandwidth_hz.sum()) if self.slots is None else self.slots.most_hz

    def __len__(self) -> int:
        return len(self.bandwidth_hz)

    def _repr_html_(self) -> str:
        columns = ("bandwidth_hz", "cpu_hz", "power_w", "compute_s", "upload_s", "device_energy_j")
        rows = zip(range(len(self)), *(getattr(self, name).tolist() for name in columns), strict=True)
        return html.table(f"a round of {html.cell('round_s', self.round_s)}, {html.cell('energy_j', self.energy_j)}",
                          ("device", *columns), rows)


def plan_for(problem: Problem, bandwidth_hz: Floats, cpu_hz: Floats, power_w: Floats | None = None) -> Plan:
    """Return the plan with given bandwidths, CPU frequencies and powers, by eqs. (5) to (11) of the paper.

    Parameters
    ----------
    problem : Problem
        Problem of S devices.
    bandwidth_hz, cpu_hz : array of float, shape (S,)
        Bandwidth and CPU frequency of each device in Hz.
    power_w : array of float, shape (S,), optional
        Transmit power in W; by default that of the problem.

    Returns
    -------
    Plan
        Plan with times, energies and the length of the round.

    Examples
    --------
    An own allocation method is a function of a problem that returns a plan:

    >>> def in_proportion(problem):
    ...     return plan_for(problem, problem.bandwidth_hz * problem.bits / problem.bits.sum(), problem.cpu_min_hz)
    >>> problem = Problem(bits=[1e6, 3e6], cycles=1e9, capacitance=1e-28, gain=1e-10, power_w=0.1, budget_j=0.3,
    ...                   cpu_min_hz=1e9, cpu_max_hz=2e9, bandwidth_hz=1e6, noise_w_per_hz=4e-21)
    >>> in_proportion(problem).bandwidth_hz.tolist()
    [250000.0, 750000.0]
    """
    power = problem.power_w if power_w is None else frozen(power_w)
    snr_hz = problem.snr_hz if power_w is None else problem.gain * power / problem.noise_w_per_hz
    upload_s = physics.upload_time(problem.bits, problem.link.rate(bandwidth_hz, snr_hz))      # eqs. (7) and (8)
    return _plan(problem, frozen(bandwidth_hz), cpu_hz, power, upload_s)


def plan_in_slots(problem: Problem, device: Ints, t0_s: Floats, hertz: Floats, cpu_hz: Floats) -> Plan:
    """Return the plan in which bandwidths change at given instants.

    A row holds until the next row of its device, or until its last bit is sent; later rows are ignored. Rates and
    powers are constant between changes.

    Parameters
    ----------
    problem : Problem
        Problem of S devices.
    device : array of int, shape (rows,)
        Position of the device; each device needs at least one row.
    t0_s : array of float, shape (rows,)
        Start of the row in seconds.
    hertz : array of float, shape (rows,)
        Bandwidth in Hz.
    cpu_hz : array of float, shape (S,)
        CPU frequency of each device in Hz.

    Returns
    -------
    Plan
        Plan with `slots`.
    """
    order = np.lexsort((t0_s, device))
    device, t0_s, hertz = device[order], t0_s[order], hertz[order]
    holds = np.append((np.diff(device) != 0) | (np.diff(t0_s) > 0.0), True)      # the last of one instant
    device, t0_s, hertz = device[holds], t0_s[holds], hertz[holds]
    rate = problem.link.rate(hertz, problem.snr_hz[device])
    before = np.zeros(len(device))                           # bits sent before a slot
    first = np.flatnonzero(np.diff(device, prepend=-1))
    for begin, end in zip(first.tolist(), [*first[1:].tolist(), len(device)], strict=True):
        if end - begin > 1:
            before[begin + 1:end] = np.cumsum(rate[begin:end - 1] * np.diff(t0_s[begin:end]))
    left = problem.bits[device] - before
    kept = (left > 0.0) | (before == 0.0)
    device, t0_s, hertz, rate, left = device[kept], t0_s[kept], hertz[kept], rate[kept], left[kept]
    last = np.append(np.diff(device) != 0, True)
    with np.errstate(divide="ignore", invalid="ignore"):
        lasts = np.where(last, left / rate, np.append(np.diff(t0_s), 0.0))
    upload_s: Floats = np.bincount(device, lasts, len(problem)).astype(np.float64)
    t1_s = np.where(last, t0_s + lasts, np.roll(t0_s, -1))
    slots = Slots(frozen(t0_s), frozen(t1_s), frozen(device, dtype=np.int64), frozen(hertz))
    mean_hz = np.bincount(device, hertz * lasts, len(problem)) / upload_s
    return _plan(problem, frozen(mean_hz), cpu_hz, problem.power_w, upload_s, slots)


def _plan(
    problem: Problem, bandwidth_hz: Floats, cpu_hz: Floats, power_w: Floats, upload_s: Floats,
    slots: Slots | None = None,
) -> Plan:
    compute_s = problem.cycles / cpu_hz                                                # eq. (5)
    compute_energy_j = problem.compute_energy_j(cpu_hz)                                # eq. (6)
    energy_j = compute_energy_j + power_w * upload_s                                   # eq. (9)
    over_budget = energy_j > problem.budget_j * (1.0 + CONSTRAINT)
    for array in (compute_s, compute_energy_j, upload_s, energy_j, over_budget):
        array.setflags(write=False)
    start_s = compute_s if slots is None else slots.start_s
    return Plan(
        bandwidth_hz=bandwidth_hz, cpu_hz=frozen(cpu_hz), power_w=power_w, compute_s=compute_s, upload_s=upload_s,
        compute_energy_j=compute_energy_j, device_energy_j=energy_j, round_s=float((start_s + upload_s).max()),
        energy_j=float(np.add.reduce(energy_j)), over_budget=over_budget, slots=slots,
    )


def fill(bandwidth_hz: Floats, total_hz: float) -> Floats:
    """Scale bandwidths so that their floating-point sum is the whole band and does not exceed it."""
    filled: Floats = bandwidth_hz * (total_hz / np.add.reduce(bandwidth_hz))
    while np.add.reduce(filled) > total_hz:
        filled *= 1.0 - 2.0**-52
    return filled


class Infeasible(ValueError):  # noqa: N818 - a result, not an error
    """Raised by an allocation method if no plan meets every constraint.

    Parameters
    ----------
    devices : sequence of int
        Positions, in the arrays of the problem, of the devices that prevent a plan.
    reason : str
        One sentence for the user.

    Examples
    --------
    >>> str(Infeasible([3], "device 3: budget below the least possible energy"))
    'device 3: budget below the least possible energy'
    """

    devices: tuple[int, ...]
    reason: str

    def __init__(self, devices: Sequence[int] | Ints, reason: str) -> None:
        super().__init__(tuple(int(n) for n in devices), reason)
        self.devices, self.reason = self.args

    def __str__(self) -> str:
        return self.reason
