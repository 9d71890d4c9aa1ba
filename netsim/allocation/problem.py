"""What an allocation method is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from netsim import physics
from netsim.base.arrays import Bools, Floats, Ints, frozen
from netsim.base.errors import InputError

TOLERANCE = 1e-9                                 # how far, relatively, a plan may miss a constraint by rounding
MAY_BE_ZERO = frozenset({"cycles", "capacitance"})
CELL = ("bandwidth_hz", "noise_w_per_hz")        # one value for all; the other fields have one for each device


@dataclass(frozen=True, eq=False)
class Problem:
    """One cohort's round: arrays of one length S, and the cell's constants; SI units (problem (19) of the paper).

    A scalar stands for the same value at every device. The arrays become read-only copies; what has no meaning
    (NaN, an infinite or negative value, unequal lengths, an empty CPU range) is an :class:`InputError` that names
    the field and the device.
    """

    bits: Floats                  # z_n
    cycles: Floats                # U_n = L C_n D_n
    capacitance: Floats           # alpha/2, so that computing costs capacitance * cycles * f^2
    gain: Floats                  # h_n, linear
    power_w: Floats               # p_n
    budget_j: Floats              # e_n
    cpu_min_hz: Floats
    cpu_max_hz: Floats
    bandwidth_hz: float           # B
    noise_w_per_hz: float         # N_0
    power_min_w: Floats | None = None     # range for the methods that choose the power; None: power_w alone
    power_max_w: Floats | None = None
    numbers: Ints | None = None           # what messages call the devices; None: by their positions

    def __post_init__(self) -> None:
        given = {f.name: _numbers(f.name, getattr(self, f.name)) for f in fields(self) if f.name not in CELL}
        size = _common_length({name: array for name, array in given.items() if array is not None})
        if self.numbers is not None:
            object.__setattr__(self, "numbers", frozen(self.numbers, dtype=np.int64))
        for name, array in given.items():
            if array is not None and name != "numbers":
                _check_range(name, array, self.numbers)
                object.__setattr__(self, name, frozen(np.broadcast_to(array, size)))
        for name in CELL:
            value = _numbers(name, getattr(self, name))
            if value is None or value.ndim:
                raise InputError(f"{name}: one number for the whole cell is needed, found {getattr(self, name)!r}")
            _check_range(name, value, None)
            object.__setattr__(self, name, float(value))
        _check_order(self, "cpu_min_hz", self.cpu_min_hz, "cpu_max_hz", self.cpu_max_hz)
        low, high = self.power_range_w
        _check_order(self, "power_min_w", low, "power_max_w", high)
        _check_finite_products(self)

    def __len__(self) -> int:
        return len(self.bits)

    @cached_property
    def snr_hz(self) -> Floats:
        """J_n = h_n p_n / N_0, eq. (15)."""
        return self.gain * self.power_w / self.noise_w_per_hz

    @cached_property
    def compute_weight(self) -> Floats:
        """G_n = (alpha/2) U_n, eq. (17): computing at f costs G f^2."""
        return self.capacitance * self.cycles

    @property
    def power_range_w(self) -> tuple[Floats, Floats]:
        """Least and greatest transmit power of each device, for the methods that choose it."""
        low = self.power_w if self.power_min_w is None else self.power_min_w
        high = self.power_w if self.power_max_w is None else self.power_max_w
        return low, high

    def name(self, position: int) -> int:
        """What messages call the device at this position."""
        return int(position if self.numbers is None else self.numbers[position])

    def subset(self, devices: Bools | Ints | Sequence[int]) -> Problem:
        """The same cell with only these devices (a mask, or positions in the order wanted)."""
        chosen = np.asarray(devices)
        if chosen.size == 0:
            raise InputError("a subset of no devices: at least one is needed")
        per_device = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in CELL}
        return replace(self, **{name: array[chosen] for name, array in per_device.items() if array is not None})


@dataclass(frozen=True, eq=False)
class Plan:
    """What each device of the cohort gets, and what follows from it by the closed forms."""

    bandwidth_hz: Floats
    cpu_hz: Floats
    power_w: Floats
    compute_s: Floats
    upload_s: Floats
    compute_energy_j: Floats
    device_energy_j: Floats       # computing and upload
    round_s: float
    energy_j: float
    over_budget: Bools            # devices that use more than their budget (methods that only weigh energy may)

    @property
    def bandwidth_used_hz(self) -> float:
        return float(self.bandwidth_hz.sum())

    def __len__(self) -> int:
        return len(self.bandwidth_hz)


def plan_for(problem: Problem, bandwidth_hz: Floats, cpu_hz: Floats, power_w: Floats | None = None) -> Plan:
    """The plan that gives each device this bandwidth, CPU frequency and power, eqs. (5) to (11)."""
    power = problem.power_w if power_w is None else power_w
    rate = physics.fdma_rate(bandwidth_hz, problem.gain * power / problem.noise_w_per_hz)
    compute_s = physics.compute_time(problem.cycles, cpu_hz)
    upload_s = physics.upload_time(problem.bits, rate)
    compute_energy_j = physics.compute_energy(problem.cycles, cpu_hz, problem.capacitance)
    energy_j = compute_energy_j + physics.upload_energy(power, upload_s)
    return Plan(
        bandwidth_hz=frozen(bandwidth_hz), cpu_hz=frozen(cpu_hz), power_w=frozen(power),
        compute_s=frozen(compute_s), upload_s=frozen(upload_s), compute_energy_j=frozen(compute_energy_j),
        device_energy_j=frozen(energy_j),
        round_s=float(np.max(compute_s + upload_s)), energy_j=float(energy_j.sum()),
        over_budget=frozen(energy_j > problem.budget_j * (1.0 + TOLERANCE), dtype=np.bool_),
    )


def fill(bandwidth_hz: Floats, total_hz: float) -> Floats:
    """The shares scaled to use the whole band, and not one bit of the last digit more."""
    filled: Floats = bandwidth_hz * (total_hz / bandwidth_hz.sum())
    while filled.sum() > total_hz:
        filled *= 1.0 - 2.0**-52
    return filled


class Infeasible(ValueError):  # noqa: N818 - an answer, not a fault
    """No plan meets every constraint; ``devices`` are positions in the problem's arrays."""

    devices: tuple[int, ...]
    reason: str

    def __init__(self, devices: Sequence[int] | Ints, reason: str) -> None:
        super().__init__(tuple(int(n) for n in devices), reason)
        self.devices, self.reason = self.args

    def __str__(self) -> str:
        return self.reason


def _numbers(name: str, values: Any) -> Floats | None:
    """``values`` as floats, without dimension or in one; None stays None where a field may be left out."""
    if values is None and name in ("power_min_w", "power_max_w", "numbers"):
        return None
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: numbers are needed, found {values!r}") from None
    if array.ndim > 1:
        raise InputError(f"{name}: one number for each device is needed, found an array of shape {array.shape}")
    return array


def _common_length(arrays: dict[str, Floats]) -> int:
    """The number of devices; scalars fit any."""
    lengths = {name: len(array) for name, array in arrays.items() if array.ndim}
    size = max(lengths.values(), default=1)
    for name, length in lengths.items():
        if length == 0:
            raise InputError(f"{name}: empty; a problem needs at least one device")
        if length != size:
            longest = next(other for other in lengths if lengths[other] == size)
            raise InputError(f"{name}: {length} values, but {longest} has {size}: one for each device is needed")
    return size


def _check_range(name: str, array: Floats, numbers: Ints | None) -> None:
    """Finite and positive, or not negative where zero has a meaning."""
    good = np.isfinite(array) & ((array >= 0.0) if name in MAY_BE_ZERO else (array > 0.0))
    if not good.all():
        n = int(np.argmin(good))
        place = "" if array.ndim == 0 else f", device {n if numbers is None else numbers[n]}"
        found = float(array if array.ndim == 0 else array[n])
        allowed = "zero or a positive number" if name in MAY_BE_ZERO else "a positive number"
        raise InputError(f"{name}{place}: {allowed} is needed, found {found!r}")


def _check_order(problem: Problem, low_name: str, low: Floats, high_name: str, high: Floats) -> None:
    """Every device's least value is at most its greatest."""
    wrong = low > high
    if wrong.any():
        n = int(np.argmax(wrong))
        found, most = float(low[n]), float(high[n])
        raise InputError(f"{low_name}, device {problem.name(n)}: {found!r} is above {high_name} = {most!r}")


def _check_finite_products(problem: Problem) -> None:
    """Refuse values whose product leaves the floating-point range here, rather than meet them later as NaN."""
    with np.errstate(over="ignore", under="ignore"):
        snr, work = problem.snr_hz, problem.compute_weight * problem.cpu_max_hz**2
    for what, array in (("gain * power_w / noise_w_per_hz", snr), ("capacitance * cycles * cpu_max_hz^2", work)):
        good = np.isfinite(array) & ((array > 0.0) | (work is array))
        if not good.all():
            n = int(np.argmin(good))
            found = float(array[n])
            raise InputError(f"{what}, device {problem.name(n)}: {found!r} is beyond what floating point can hold")
