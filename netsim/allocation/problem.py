"""What an allocation method is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from netsim import physics
from netsim.base import html
from netsim.base.arrays import Bools, Floats, Ints, frozen
from netsim.base.counts import counted
from netsim.base.errors import InputError, found
from netsim.base.tolerances import CONSTRAINT, ROUNDING
from netsim.physics import SHANNON, LinkModel

KEPT_BACK = 2 * CONSTRAINT                       # of a battery, so that a plan that misses by so much does not empty it
MAY_BE_ZERO = frozenset({"cycles", "capacitance"})
DEVICE = ("bits", "cycles", "capacitance", "gain", "power_w", "budget_j", "cpu_min_hz", "cpu_max_hz",
          "power_min_w", "power_max_w")          # fields with a value for each device
CELL = ("bandwidth_hz", "noise_w_per_hz")        # one value for all


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
    numbers: Ints | None = None           # the devices' numbers; None: their positions
    names: Callable[[int], str] | None = None      # what a device of a number is called; None: "device 3"
    link: LinkModel = SHANNON             # what a bandwidth carries

    def __post_init__(self) -> None:
        given = {name: _numbers(name, getattr(self, name)) for name in (*DEVICE, "numbers")}
        size = _common_length({name: array for name, array in given.items() if array is not None})
        sound: dict[str, Any] = {}
        if self.numbers is not None:
            sound["numbers"] = frozen(self.numbers, dtype=np.int64)
        for name in DEVICE:
            array = given[name]
            if array is not None:
                _check_range(name, array, sound.get("numbers"))
                sound[name] = _kept(array, size)
        for name in CELL:
            value = _numbers(name, getattr(self, name))
            if value is None or value.ndim:
                raise InputError("wrong-type", name, repr(getattr(self, name)), "one number for the whole cell")
            _check_range(name, value, None)
            sound[name] = float(value)
        vars(self).update(sound)
        if not (callable(getattr(self.link, "rate", None)) and callable(getattr(self.link, "bandwidth", None))):
            raise InputError("wrong-interface", "link", found(self.link),
                             "an object with rate(hz, snr_hz) and bandwidth(rate, snr_hz)")
        for low, high, ends in (("cpu_min_hz", "cpu_max_hz", (self.cpu_min_hz, self.cpu_max_hz)),
                                ("power_min_w", "power_max_w", self.power_range_w)):
            wrong = np.flatnonzero(ends[0] > ends[1])
            if wrong.size:
                raise InputError("conflict", f"{low}, {self.called(wrong[0])}", float(ends[0][wrong[0]]),
                                 f"at most {high} = {float(ends[1][wrong[0]])!r}")
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
        """The number of the device at this position."""
        return int(position if self.numbers is None else self.numbers[position])

    def called(self, position: int) -> str:
        """What messages call the device at this position."""
        number = self.name(position)
        return f"device {number}" if self.names is None else self.names(number)

    def subset(self, devices: Bools | Ints | Sequence[int], gain: Floats | None = None) -> Problem:
        """The same cell with only these devices (a mask, or positions in the order wanted), perhaps with new gains.

        What was valid of all is valid of some and is not looked at again; ``gain``, an entry for each of these devices,
        is what their channels are now.
        """
        chosen = np.asarray(devices)
        if chosen.size == 0:
            raise InputError("empty", "devices", expected="at least one device of the problem")
        parts = {name: array if array is None else array[chosen]
                 for name, array in ((name, getattr(self, name)) for name in (*DEVICE, "numbers"))}
        return self._with(parts if gain is None else {**parts, "gain": np.array(gain)})

    def with_power(self, power_w: Floats) -> Problem:
        """The same problem with other transmit powers."""
        return self._with({"power_w": np.array(power_w, dtype=np.float64)})

    def with_energy(self, charge_j: Floats, factor: float = 1.0, spent_j: Floats | None = None) -> Problem:
        """The same problem with budgets so many times as large, but for nobody more than its battery holds.

        A hair of what it holds is kept back, so that no rounding of a plan empties it too soon; ``spent_j`` is what
        goes before there is anything to plan.
        """
        most_j = charge_j * (1.0 - KEPT_BACK)
        if spent_j is not None and spent_j.any():
            budget_j = np.minimum(self.budget_j * factor, most_j)
            return replace(self, budget_j=np.maximum(budget_j - spent_j, budget_j * ROUNDING))
        if factor == 1.0 and (most_j >= self.budget_j).all():
            return self
        return replace(self, budget_j=np.minimum(self.budget_j * factor, most_j))

    def cpu_for(self, compute_s: Floats) -> Floats:
        """The CPU frequencies that compute for so long, as far as their ranges allow."""
        return np.minimum(np.maximum(self.cycles / compute_s, self.cpu_min_hz), self.cpu_max_hz)

    def _with(self, parts: dict[str, Any]) -> Problem:
        """These parts, which are sound by themselves, in the place of its own; only their signal is looked at again."""
        for array in parts.values():
            if array is not None:
                array.setflags(write=False)
        problem = copy(self)
        vars(problem).update(parts)
        for follows in ("snr_hz", "compute_weight"):
            vars(problem).pop(follows, None)
        with np.errstate(over="ignore", invalid="ignore"):
            sound = problem.snr_hz.min() > 0.0 and problem.snr_hz.max() < np.inf
        return problem if sound else replace(problem)      # looks at everything, and says what is wrong


@dataclass(frozen=True, eq=False)
class Slots:
    """Bands that change in time: rows by rising device, then time; a device sends without a break.

    Seconds count from the beginning of the wave; ``device`` is a position in the problem. A device that is not done
    when its last slot ends, be it by rounding, keeps that share; where channels change, devices go off or get hot, or
    uploads are lost, it goes on with its mean share.
    """

    t0_s: Floats
    t1_s: Floats
    device: Ints
    hertz: Floats

    def __len__(self) -> int:
        return len(self.device)

    @cached_property
    def start_s(self) -> Floats:
        """When each device begins to send."""
        return self.t0_s[np.flatnonzero(np.diff(self.device, prepend=-1))]

    @cached_property
    def most_hz(self) -> float:
        """The most of the band that is in use at one time."""
        hair = ROUNDING * float(self.t1_s.max())
        times = np.concatenate([self.t0_s, np.maximum(self.t1_s - hair, self.t0_s)])
        change = np.concatenate([self.hertz, -self.hertz])
        order = np.lexsort((change, times))                # at one instant ends come before starts
        return float(np.cumsum(change[order]).max())

    def table(self) -> Floats:
        """A row for each: t0, t1, device, hertz."""
        return np.column_stack([self.t0_s, self.t1_s, self.device, self.hertz])


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
    slots: Slots | None = None    # where bands change in time; then bandwidth_hz is the mean over an upload

    @property
    def start_s(self) -> Floats:
        """When each device begins to send."""
        return self.compute_s if self.slots is None else self.slots.start_s

    @property
    def end_s(self) -> Floats:
        """When each device has sent its last bit."""
        return self.start_s + self.upload_s

    @property
    def bandwidth_used_hz(self) -> float:
        """The most that is in use at one time."""
        return float(self.bandwidth_hz.sum()) if self.slots is None else self.slots.most_hz

    def __len__(self) -> int:
        return len(self.bandwidth_hz)

    def _repr_html_(self) -> str:
        columns = ("bandwidth_hz", "cpu_hz", "power_w", "compute_s", "upload_s", "device_energy_j")
        rows = zip(range(len(self)), *(getattr(self, name).tolist() for name in columns), strict=True)
        return html.table(f"a round of {html.cell('round_s', self.round_s)}, {html.cell('energy_j', self.energy_j)}",
                          ("device", *columns), rows)


def plan_for(problem: Problem, bandwidth_hz: Floats, cpu_hz: Floats, power_w: Floats | None = None) -> Plan:
    """The plan that gives each device this bandwidth, CPU frequency and power, eqs. (5) to (11)."""
    power = problem.power_w if power_w is None else frozen(power_w)
    snr_hz = problem.snr_hz if power_w is None else problem.gain * power / problem.noise_w_per_hz
    upload_s = physics.upload_time(problem.bits, problem.link.rate(bandwidth_hz, snr_hz))      # eqs. (7) and (8)
    return _plan(problem, frozen(bandwidth_hz), cpu_hz, power, upload_s)


def plan_in_slots(problem: Problem, device: Ints, t0_s: Floats, hertz: Floats, cpu_hz: Floats) -> Plan:
    """The plan in which a device has so many hertz from an instant on, until its next one or its last bit.

    ``device``, ``t0_s`` and ``hertz`` are columns of one length, every device among them; what comes after a device's
    last bit is left out. Rates and powers are constant between changes.
    """
    order = np.lexsort((t0_s, device))
    device, t0_s, hertz = device[order], t0_s[order], hertz[order]
    holds = np.append((np.diff(device) != 0) | (np.diff(t0_s) > 0.0), True)      # of several at one instant, the last
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
    """The plan with uploads of so many seconds."""
    compute_s = problem.cycles / cpu_hz                                                # eq. (5)
    compute_energy_j = problem.compute_weight * np.square(cpu_hz)                      # eq. (6)
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
    """The shares scaled to use the whole band, and not one bit of the last digit more."""
    filled: Floats = bandwidth_hz * (total_hz / np.add.reduce(bandwidth_hz))
    while np.add.reduce(filled) > total_hz:
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
        raise InputError("wrong-type", name, repr(values), "numbers") from None
    if array.ndim > 1:
        raise InputError("wrong-length", name, f"an array of shape {array.shape}", "one number for each device")
    return array


def _common_length(arrays: dict[str, Floats]) -> int:
    """The number of devices; scalars fit any."""
    lengths = {name: len(array) for name, array in arrays.items() if array.ndim}
    size = max(lengths.values(), default=1)
    for name, length in lengths.items():
        if length == 0:
            raise InputError("empty", name, expected="values for at least one device")
        if length != size:
            longest = next(other for other in lengths if lengths[other] == size)
            raise InputError("wrong-length", name, counted(length, "value"),
                             f"one for each device: {longest} has {size}")
    return size


def _kept(array: Floats, size: int) -> Floats:
    """A read-only copy with an entry for each device; the array itself where nobody can write to it."""
    if array.ndim and not array.flags.writeable:
        owner = array if array.base is None else array.base
        if isinstance(owner, np.ndarray) and not owner.flags.writeable:
            return array
    return frozen(array if array.ndim else np.full(size, array))


def _check_range(name: str, array: Floats, numbers: Ints | None) -> None:
    """Finite and positive, or not negative where zero has a meaning."""
    least = array.min()
    if (least > 0.0 or (least == 0.0 and name in MAY_BE_ZERO)) and array.max() < np.inf:
        return
    good = np.isfinite(array) & ((array >= 0.0) if name in MAY_BE_ZERO else (array > 0.0))
    if not good.all():
        n = int(np.argmin(good))
        place = "" if array.ndim == 0 else f", device {n if numbers is None else numbers[n]}"
        value = float(array if array.ndim == 0 else array[n])
        allowed = "zero or a positive number" if name in MAY_BE_ZERO else "a positive number"
        raise InputError("out-of-range" if np.isfinite(value) else "not-finite", f"{name}{place}", value, allowed)


def _check_finite_products(problem: Problem) -> None:
    """Refuse values whose product leaves the floating-point range here, rather than meet them later as NaN."""
    with np.errstate(over="ignore", under="ignore"):
        snr, work = problem.snr_hz, problem.compute_weight * problem.cpu_max_hz**2
    for what, array in (("gain * power_w / noise_w_per_hz", snr), ("capacitance * cycles * cpu_max_hz^2", work)):
        good = np.isfinite(array) & ((array > 0.0) | (work is array))
        if not good.all():
            n = int(np.argmin(good))
            raise InputError("too-large", f"{what}, {problem.called(n)}", float(array[n]),
                             "a number that floating point can hold")
