"""The problem that an allocation method solves: the devices of a round that share a band."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.allocation.cpu_power import CpuPower
from netsim.base.errors import InputError, describe_value
from netsim.base.pluralize import pluralize
from netsim.base.tolerances import CONSTRAINT, ROUNDING
from netsim.base.types import Bools, Floats, Ints, frozen
from netsim.physics import SHANNON, LinkModel

KEPT_BACK = 2 * CONSTRAINT                       # fraction of a battery: a plan's rounding must not deplete it
MAY_BE_ZERO = frozenset({"cycles", "capacitance"})
MAY_BE_INFINITE = "budget_j"                     # no budget: inf
DEVICE = ("bits", "cycles", "capacitance", "gain", "power_w", "budget_j", "cpu_min_hz", "cpu_max_hz",
          "power_min_w", "power_max_w")          # fields with a value for each device
CELL = ("bandwidth_hz", "noise_w_per_hz")        # one value for all


@dataclass(frozen=True, eq=False)
class Problem:
    """The allocation problem of one round: S devices that share a band (problem (19) of the paper), in SI units.

    A scalar applies to every device. Arrays are copied and become read-only.

    Parameters
    ----------
    bits : array of float, shape (S,)
        Upload size z_n in bits.
    cycles : array of float, shape (S,)
        CPU cycles U_n = L C_n D_n of a job; may be 0.
    capacitance : array of float, shape (S,)
        alpha/2 in the paper's notation: computing at f Hz costs ``capacitance * cycles * f**2`` joules; may be 0.
    gain : array of float, shape (S,)
        Linear channel gain h_n.
    power_w : array of float, shape (S,)
        Transmit power p_n in W.
    budget_j : array of float, shape (S,)
        Energy budget e_n of the round in J; inf for none.
    cpu_min_hz, cpu_max_hz : array of float, shape (S,)
        Range of the CPU frequency in Hz.
    bandwidth_hz : float
        Bandwidth B of the cell in Hz.
    noise_w_per_hz : float
        Noise power density N_0 in W/Hz.
    power_min_w, power_max_w : array of float, shape (S,), optional
        Range of the transmit power in W, for methods that choose it; by default `power_w` alone.
    numbers : array of int, shape (S,), optional
        Device numbers for messages; by default positions.
    names : callable, optional
        Returns the name of a device for its number; by default "device 3".
    link : LinkModel
        Rate of a radio link; by default Shannon's.
    cpu_power : CpuPower, optional
        Tables of CPU power for some devices; the others, and by default all, draw ``capacitance * f**3``. The lowest
        frequency of a device with a table is at least that of least energy per cycle.

    Raises
    ------
    InputError
        If a value is NaN, negative, out of range or infinite (a budget may be), or lengths differ; names the field
        and the device.

    Examples
    --------
    >>> problem = Problem(bits=1e6, cycles=1e9, capacitance=1e-28, gain=[1e-10, 1e-11], power_w=0.1, budget_j=0.3,
    ...                   cpu_min_hz=1e8, cpu_max_hz=1e9, bandwidth_hz=1e6, noise_w_per_hz=4e-21)
    >>> len(problem), problem.snr_hz.round().tolist()
    (2, [2500000000.0, 250000000.0])
    """

    bits: Floats
    cycles: Floats
    capacitance: Floats
    gain: Floats
    power_w: Floats
    budget_j: Floats
    cpu_min_hz: Floats
    cpu_max_hz: Floats
    bandwidth_hz: float
    noise_w_per_hz: float
    power_min_w: Floats | None = None
    power_max_w: Floats | None = None
    numbers: Ints | None = None
    names: Callable[[int], str] | None = None
    link: LinkModel = SHANNON
    cpu_power: CpuPower | None = None

    def __post_init__(self) -> None:
        sound = {**_per_device(self), **_for_all(self)}
        if self.cpu_power is not None:
            least_hz = np.maximum(sound["cpu_min_hz"], self.cpu_power.thriftiest_hz())
            sound["cpu_min_hz"] = frozen(np.minimum(least_hz, np.maximum(sound["cpu_max_hz"], sound["cpu_min_hz"])))
        vars(self).update(sound)
        if not (callable(getattr(self.link, "rate", None)) and callable(getattr(self.link, "bandwidth", None))):
            raise InputError("wrong-interface", "link", describe_value(self.link),
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
        """J_n = h_n p_n / N_0 in Hz, eq. (15); shape (S,)."""
        return self.gain * self.power_w / self.noise_w_per_hz

    @cached_property
    def compute_weight(self) -> Floats:
        """G_n = (alpha/2) U_n, eq. (17): computing at f costs G f^2 joules; shape (S,)."""
        return self.capacitance * self.cycles

    def compute_energy_j(self, cpu_hz: Floats) -> Floats:
        """Return the energy of computing at given frequencies.

        Parameters
        ----------
        cpu_hz : array of float, shape (S,)
            CPU frequency in Hz.

        Returns
        -------
        array of float, shape (S,)
            Joules: G f^2, eq. (6), or power times time of a table.
        """
        kappa: Floats = self.compute_weight * np.square(cpu_hz)
        return kappa if self.cpu_power is None else np.where(
            self.cpu_power.tabled, self.cpu_power.at(cpu_hz) * (self.cycles / cpu_hz), kappa)

    def compute_w(self, cpu_hz: Floats) -> Floats:
        """Return the power in W that CPUs draw at given frequencies."""
        kappa: Floats = self.capacitance * cpu_hz**3
        return kappa if self.cpu_power is None else np.where(self.cpu_power.tabled, self.cpu_power.at(cpu_hz), kappa)

    @property
    def power_range_w(self) -> tuple[Floats, Floats]:
        """Minimum and maximum transmit power of each device in W, for methods that choose it."""
        low = self.power_w if self.power_min_w is None else self.power_min_w
        high = self.power_w if self.power_max_w is None else self.power_max_w
        return low, high

    def name(self, position: int) -> int:
        """Return the number of the device at a position."""
        return int(position if self.numbers is None else self.numbers[position])

    def called(self, position: int) -> str:
        """Return the name of the device at a position, for messages.

        Parameters
        ----------
        position : int
            Index into the arrays of the problem.

        Returns
        -------
        str
            Such as "device 3", or the name that `names` returns.
        """
        number = self.name(position)
        return f"device {number}" if self.names is None else self.names(number)

    def subset(self, devices: Bools | Ints | Sequence[int], gain: Floats | None = None) -> Problem:
        """Return the same problem with some of its devices; values that were valid are not checked again.

        Parameters
        ----------
        devices : array of bool or int
            Mask, or positions in the order wanted.
        gain : array of float, optional
            Present channel gain of each of these devices; by default as before.

        Returns
        -------
        Problem
            Problem of these devices.

        Raises
        ------
        InputError
            If no device is selected.
        """
        chosen = np.asarray(devices)
        if chosen.size == 0:
            raise InputError("empty", "devices", expected="at least one device of the problem")
        parts = {name: array if array is None else array[chosen]
                 for name, array in ((name, getattr(self, name)) for name in (*DEVICE, "numbers"))}
        problem = self._with(parts if gain is None else {**parts, "gain": np.array(gain)})
        if self.cpu_power is not None:
            vars(problem)["cpu_power"] = self.cpu_power[chosen]
        return problem

    def with_power(self, power_w: Floats) -> Problem:
        """Return the same problem with other transmit powers.

        Parameters
        ----------
        power_w : array of float, shape (S,)
            Transmit power in W.

        Returns
        -------
        Problem
            Problem with these powers.
        """
        return self._with({"power_w": np.array(power_w, dtype=np.float64)})

    def with_energy(self, charge_j: Floats, factor: float = 1.0, spent_j: Floats | None = None) -> Problem:
        """Return the same problem with scaled budgets, limited by the charge of batteries (inf for mains).

        A fraction of 2e-9 of the charge is kept back, so that the rounding of a plan does not deplete a battery.
        ``spent_j`` is the energy that is spent before the planned work (a download).
        """
        most_j = charge_j * (1.0 - KEPT_BACK)
        if spent_j is not None and spent_j.any():
            budget_j = np.minimum(self.budget_j * factor, most_j)
            return replace(self, budget_j=np.maximum(budget_j - spent_j, budget_j * ROUNDING))
        if factor == 1.0 and (most_j >= self.budget_j).all():
            return self
        return replace(self, budget_j=np.minimum(self.budget_j * factor, most_j))

    def cpu_for(self, compute_s: Floats) -> Floats:
        """Return the CPU frequencies that compute for given times, clipped to each CPU's range.

        Parameters
        ----------
        compute_s : array of float, shape (S,)
            Computing time in seconds.

        Returns
        -------
        array of float, shape (S,)
            CPU frequency in Hz.
        """
        return np.minimum(np.maximum(self.cycles / compute_s, self.cpu_min_hz), self.cpu_max_hz)

    def _with(self, parts: dict[str, Any]) -> Problem:
        """Return a copy with valid values replaced; check only the signal-to-noise ratio again."""
        for array in parts.values():
            if array is not None:
                array.setflags(write=False)
        problem = copy(self)
        vars(problem).update(parts)
        for follows in ("snr_hz", "compute_weight"):
            vars(problem).pop(follows, None)
        with np.errstate(over="ignore", invalid="ignore"):
            sound = problem.snr_hz.min() > 0.0 and problem.snr_hz.max() < np.inf
        return problem if sound else replace(problem)      # checks everything and raises InputError


def _per_device(problem: Problem) -> dict[str, Any]:
    """Return the checked arrays of a problem, each with an entry for every device."""
    given = {name: _numbers(name, getattr(problem, name)) for name in (*DEVICE, "numbers")}
    size = _common_length({name: array for name, array in given.items() if array is not None})
    sound: dict[str, Any] = {}
    if problem.numbers is not None:
        sound["numbers"] = _kept(np.asarray(problem.numbers, dtype=np.int64), size)
    for name in DEVICE:
        array = given[name]
        if array is not None:
            _check_range(name, array, sound.get("numbers"))
            sound[name] = _kept(array, size)
    return sound


def _for_all(problem: Problem) -> dict[str, float]:
    """Return the checked values of a problem that hold for all devices."""
    sound = {}
    for name in CELL:
        value = _numbers(name, getattr(problem, name))
        if value is None or value.ndim:
            raise InputError("wrong-type", name, repr(getattr(problem, name)), "one number for the whole cell")
        _check_range(name, value, None)
        sound[name] = float(value)
    return sound


def _numbers(name: str, values: Any) -> Floats | None:
    """Return ``values`` as a 0-d or 1-d array of floats, or None for an optional field that is None."""
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
    """Return the number of devices; scalars match any number."""
    lengths = {name: len(array) for name, array in arrays.items() if array.ndim}
    size = max(lengths.values(), default=1)
    for name, length in lengths.items():
        if length == 0:
            raise InputError("empty", name, expected="values for at least one device")
        if length != size:
            longest = next(other for other in lengths if lengths[other] == size)
            raise InputError("wrong-length", name, pluralize(length, "value"),
                             f"one for each device: {longest} has {size}")
    return size


def _kept(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return a read-only copy with an entry for each device, or the array itself if it is already read-only."""
    if array.ndim and not array.flags.writeable:
        owner = array if array.base is None else array.base
        if isinstance(owner, np.ndarray) and not owner.flags.writeable:
            return array
    return frozen(array if array.ndim else np.full(size, array), array.dtype)


def _check_range(name: str, array: Floats, numbers: Ints | None) -> None:
    """Raise InputError unless all values are finite and positive (or zero, where zero is meaningful)."""
    least = array.min()
    if (least > 0.0 or (least == 0.0 and name in MAY_BE_ZERO)) and (array.max() < np.inf or name == MAY_BE_INFINITE):
        return
    good = (np.isfinite(array) | (name == MAY_BE_INFINITE)) & ((array >= 0.0) if name in MAY_BE_ZERO else (array > 0.0))
    if not good.all():
        n = int(np.argmin(good))
        place = "" if array.ndim == 0 else f", device {n if numbers is None else numbers[n]}"
        value = float(array if array.ndim == 0 else array[n])
        allowed = "zero or a positive number" if name in MAY_BE_ZERO else "a positive number"
        raise InputError("out-of-range" if np.isfinite(value) else "not-finite", f"{name}{place}", value, allowed)


def _check_finite_products(problem: Problem) -> None:
    """Raise InputError if a product of the values exceeds the floating-point range, which would lead to NaN later."""
    with np.errstate(over="ignore", under="ignore"):
        snr, work = problem.snr_hz, problem.compute_weight * problem.cpu_max_hz**2
    for what, array in (("gain * power_w / noise_w_per_hz", snr), ("capacitance * cycles * cpu_max_hz^2", work)):
        good = np.isfinite(array) & ((array > 0.0) | (work is array))
        if not good.all():
            n = int(np.argmin(good))
            raise InputError("too-large", f"{what}, {problem.called(n)}", float(array[n]),
                             "a number that floating point can hold")
