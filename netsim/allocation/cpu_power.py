"""Power of CPUs by frequency from a table, for devices whose power is not kappa f^3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from netsim.base.errors import InputError
from netsim.base.types import Bools, Floats, Ints, frozen

HALVINGS = 100      # of an interval of frequencies or seconds: down to the last digit


@dataclass(frozen=True, eq=False)
class CpuPower:
    """Power in W that each CPU draws at a frequency: linear between the points of its table.

    Between two points a CPU switches between both, so that time and energy are their means. Points above the line
    between two others are never used: the table is reduced to its lower convex hull. ``hz`` and ``watts``, of shape (S,
    K), have a row of points by rising frequency per device, filled up with inf; a row of inf alone has no table.
    """

    hz: Floats
    watts: Floats

    @classmethod
    def of(cls, tables: Sequence[Sequence[tuple[float, float]] | None]) -> CpuPower:
        """Return the power of devices from their tables of (Hz, W), both rising; None: a device without one."""
        hulls = [() if table is None else _hull(table) for table in tables]
        width = max(map(len, hulls), default=0)
        filled = [[*hull, *[(np.inf, np.inf)] * (width - len(hull))] for hull in hulls]
        points = np.array(filled, dtype=float).reshape(len(hulls), width, 2)
        return cls(frozen(points[:, :, 0]), frozen(points[:, :, 1]))

    def __getitem__(self, devices: Bools | Ints) -> CpuPower:
        return CpuPower(frozen(self.hz[devices]), frozen(self.watts[devices]))

    @property
    def tabled(self) -> Bools:
        """Mask of the devices with a table."""
        return np.isfinite(self.hz[:, 0])

    def at(self, cpu_hz: Floats) -> Floats:
        """Return the power in W at each device's frequency; NaN without a table."""
        rows = np.arange(len(self.hz))
        last = np.maximum(np.isfinite(self.hz).sum(axis=1) - 1, 1)
        above = np.clip((self.hz <= cpu_hz[:, None]).sum(axis=1), 1, last)
        low_hz, low_w = self.hz[rows, above - 1], self.watts[rows, above - 1]
        with np.errstate(invalid="ignore"):
            slope = (self.watts[rows, above] - low_w) / (self.hz[rows, above] - low_hz)
            found: Floats = low_w + slope * (cpu_hz - low_hz)
        return found

    def thriftiest_hz(self) -> Floats:
        """Return the frequency of least energy per cycle; slower is both longer and dearer. 0 without a table."""
        with np.errstate(invalid="ignore"):
            per_cycle = np.where(np.isfinite(self.hz), self.watts / self.hz, np.inf)
        best: Floats = self.hz[np.arange(len(self.hz)), per_cycle.argmin(axis=1)]
        return np.where(self.tabled, best, 0.0)

    def fastest_hz(self, joules_per_cycle: Floats, low_hz: Floats, high_hz: Floats) -> Floats:
        """Return the highest frequency whose energy per cycle is affordable; below ``low_hz`` if none is."""
        low, high = low_hz * (1.0 - 1e-12), high_hz.copy()
        fits = self.at(high) <= joules_per_cycle * high
        low = np.where(fits, high, low)
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            fits = self.at(middle) <= joules_per_cycle * middle
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        return low


def _hull(table: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the lower convex hull of a table."""
    points = [(float(hz), float(watts)) for hz, watts in table]
    rises = all(before[0] < after[0] and before[1] <= after[1] for before, after in pairwise(points))
    if len(points) < 2 or not rises or not (points[0][0] > 0.0 and points[0][1] > 0.0 and np.isfinite(points).all()):
        raise InputError("out-of-range", "cpu_power", str(points)[:60],
                         "two points or more, by rising frequency and power")
    hull: list[tuple[float, float]] = []
    for x, y in points:
        while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (x - hull[-1][0]) >= (y - hull[-1][1]) * (
                hull[-1][0] - hull[-2][0]):
            hull.pop()
        hull.append((x, y))
    return hull
