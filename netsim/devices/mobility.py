"""Positions of moving devices.

Every device has its own random stream, drawn in absolute time, so that positions are the same for all methods with one
seed.
"""

from __future__ import annotations

import math
from bisect import bisect_right

import numpy as np

from netsim.base.rng import advance, stream
from netsim.base.types import Floats, Ints
from netsim.scenario.time_varying import Mobility, RandomWaypoint

CHUNK = 64                                   # legs drawn at once: one random stream for each would be slow
MEAN_LEG = 128.0 / (45.0 * math.pi)          # mean distance of two uniform points in a disc, over its radius


class Trajectory:
    """A path of straight legs: instants (s) and positions (m) of its corners, extended on demand."""

    def __init__(self, t: list[float], x: list[float], y: list[float]) -> None:
        self.t, self.x, self.y = t, x, y
        self.legs = 0      # drawn so far; legs of length 0 have no corner

    def at(self, t: float) -> tuple[float, float]:
        """Return the position in m at ``t`` (seconds); a device stays at the end of its path."""
        while t >= self.t[-1] and self.extend():
            advance(self.legs, "a device changes its direction", t)
        k = bisect_right(self.t, t)
        if k == 0 or k == len(self.t):
            end = min(k, len(self.t) - 1)
            return self.x[end], self.y[end]
        part = (t - self.t[k - 1]) / (self.t[k] - self.t[k - 1])
        return (self.x[k - 1] + part * (self.x[k] - self.x[k - 1]), self.y[k - 1] + part * (self.y[k] - self.y[k - 1]))

    def extend(self) -> bool:
        """Add further legs; return False at the end of the path."""
        return False


class RandomWaypointTrajectory(Trajectory):
    """Random waypoint in a disc, which starts in steady state, so that there is no warm-up."""

    def __init__(self, table: RandomWaypoint, radius_m: float, seed: int, device: int) -> None:
        self.table, self.radius_m, self.seed, self.device = table, radius_m, seed, device
        self.chunks = 0
        rng = stream(seed, "mobility", 0, device)
        resting, (x, y), goal, speed = _stationary(rng, table, radius_m)
        super().__init__([0.0], [x], [y])
        self._stay(resting)
        self._go(*goal, speed)

    def extend(self) -> bool:
        self.chunks += 1
        self.legs += CHUNK
        rng = stream(self.seed, "mobility", self.chunks, self.device)
        corners, speeds = points(rng, CHUNK, self.radius_m), rng.uniform(*self.table.speeds, CHUNK)
        for (x, y), speed in zip(corners.tolist(), speeds.tolist(), strict=True):
            self._go(x, y, speed)
        return True

    def _go(self, x: float, y: float, speed: float) -> None:
        """Add a leg to a point, and the pause there."""
        self._corner(math.hypot(x - self.x[-1], y - self.y[-1]) / speed, x, y)
        self._stay(self.table.pause)

    def _stay(self, seconds: float) -> None:
        self._corner(seconds, self.x[-1], self.y[-1])

    def _corner(self, seconds: float, x: float, y: float) -> None:
        t = self.t[-1] + seconds
        if t > self.t[-1]:                   # legs and pauses of length 0 have no corner
            self.t.append(t)
            self.x.append(x)
            self.y.append(y)


Point = tuple[float, float]


def _stationary(rng: np.random.Generator, table: RandomWaypoint, radius_m: float) -> tuple[float, Point, Point, float]:
    """Draw remaining pause, position, goal and speed from the stationary distribution.

    The weight of a leg is its duration: proportional to its length and to 1/speed. Pausing devices are at the ends of
    legs, uniform over the disc, at a uniform instant of their pause.
    """
    slow, fast = table.speeds
    walking_s = MEAN_LEG * radius_m * (math.log(fast / slow) / (fast - slow) if fast > slow else 1.0 / slow)
    if rng.random() * (walking_s + table.pause) < table.pause:
        (x, y), goal = points(rng, 2, radius_m).tolist()
        return table.pause * rng.random(), (x, y), (goal[0], goal[1]), float(rng.uniform(slow, fast))
    while True:
        (x0, y0), (x1, y1) = points(rng, 2, radius_m).tolist()
        if rng.random() * 2.0 * radius_m < math.hypot(x1 - x0, y1 - y0):
            part = rng.random()
            return 0.0, (x0 + part * (x1 - x0), y0 + part * (y1 - y0)), (x1, y1), slow * (fast / slow) ** rng.random()


def points(rng: np.random.Generator, count: int, radius_m: float) -> Floats:
    """Draw points uniformly over a disc; shape (count, 2), in m."""
    draws = rng.random((count, 2))
    distance, angle = radius_m * np.sqrt(draws[:, 0]), 2.0 * np.pi * draws[:, 1]
    np.multiply(distance, np.cos(angle), out=draws[:, 0])
    np.multiply(distance, np.sin(angle), out=draws[:, 1])
    return draws


class MobileDevices:
    """The moving devices of one population, by their index in it."""

    def __init__(
        self, table: Mobility, radius_m: float, seed: int, keys: list[int], midnight_s: float = 0.0,
    ) -> None:
        self.table, self.radius_m, self.seed, self.keys, self.midnight_s = table, radius_m, seed, keys, midnight_s
        self._walks: dict[int, Trajectory] = {}

    def places(self, devices: Ints, t: float) -> tuple[Floats, Floats]:
        """Return the positions of devices at ``t`` (seconds), in m east and north of the base station."""
        there = np.array([self.walk(device).at(t) for device in devices.tolist()]).reshape(-1, 2)
        return there[:, 0], there[:, 1]

    def walk(self, device: int) -> Trajectory:
        if device not in self._walks:
            if self.table.model == "recorded":
                track = self.table.tracks[device]
                self._walks[device] = Trajectory([self.midnight_s + t for t in track.t], list(track.x), list(track.y))
            else:
                self._walks[device] = RandomWaypointTrajectory(self.table, self.radius_m, self.seed, self.keys[device])
        return self._walks[device]
