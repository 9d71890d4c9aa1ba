"""A wave played without a simulation: who ends when, arrived or not, and what it took.

As the cell plays it, with the same disciplines; a property test holds the two together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from netsim.allocation.waves import Wave
from netsim.base.arrays import Bools, Floats
from netsim.cell.disciplines import Active, Discipline
from netsim.physics import fdma_rate

ROUNDING = 1e-12      # of a load: a battery that just suffices suffices


@dataclass(frozen=True, eq=False)
class PlayedWave:
    """How a wave went, an entry for each of its devices."""

    seconds: float
    arrived: Bools
    energy_j: Floats


def play_wave(
    wave: Wave, charge_j: Floats, patience_s: float, discipline: Discipline, bandwidth_hz: float, began: float = 0.0,
) -> PlayedWave:
    """Let a wave's devices compute and send until they are done, their battery is empty, or patience ends."""
    if discipline.fixed and wave.plan.bandwidth_used_hz <= bandwidth_hz * (1 + 1e-9):
        return _as_planned(wave, charge_j, patience_s)
    return Sharing(wave, charge_j, patience_s, discipline, bandwidth_hz, began).play()


def _as_planned(wave: Wave, charge_j: Floats, patience_s: float) -> PlayedWave:
    """Nobody has to wait for the band, so that each is on its own."""
    plan = wave.plan
    takes = plan.compute_s + plan.upload_s
    ends, energy_j = takes, plan.device_energy_j
    if np.isfinite(charge_j).any():
        compute_w = wave.problem.capacitance * plan.cpu_hz**3
        left_j = charge_j - plan.compute_energy_j
        with np.errstate(divide="ignore", invalid="ignore"):
            dies = np.where(left_j < 0.0, charge_j / compute_w, plan.compute_s + left_j / plan.power_w)
        ends, energy_j = np.minimum(takes, dies), np.minimum(energy_j, charge_j)
    return PlayedWave(min(float(ends.max()), patience_s), (takes <= ends) & (takes <= patience_s), energy_j)


class Sharing:
    """Devices that share a band by a discipline, from one start, end or change of shares to the next."""

    def __init__(
        self, wave: Wave, charge_j: Floats, patience_s: float, discipline: Discipline, bandwidth_hz: float,
        began: float,
    ) -> None:
        plan, problem = wave.plan, wave.problem
        compute_j, count = plan.compute_energy_j, len(wave.devices)
        self.wave, self.discipline, self.bandwidth_hz, self.began = wave, discipline, bandwidth_hz, began
        self.patience_s = patience_s
        self.snr_hz = problem.gain * plan.power_w / problem.noise_w_per_hz
        dead = charge_j < compute_j * (1 - ROUNDING)
        with np.errstate(divide="ignore", invalid="ignore"):
            dies = np.where(dead, charge_j / compute_j * plan.compute_s, math.inf)
        self.energy_j = np.minimum(compute_j, charge_j)
        self.charge_j = np.where(dead, 0.0, charge_j - compute_j)
        self.ends = np.where(dead, dies, math.nan)
        self.ready = sorted((float(plan.compute_s[n]), n) for n in range(count) if not dead[n])
        self.arrived = np.zeros(count, bool)
        self.left = problem.bits.copy()
        self.rate, self.hertz = np.zeros(count), np.zeros(count)
        self.sending: list[int] = []
        self.waiting: list[int] = []           # the first ready first

    def play(self) -> PlayedWave:
        """From event to event: ends come before starts."""
        now = 0.0
        while (self.ready or self.sending) and now < self.patience_s:
            now = self._advance(now)
            self._end(now)
            while self.ready and self.ready[0][0] <= now:
                self.waiting.append(self.ready.pop(0)[1])
            self._share(now)
        ends = np.fmin(self.ends, self.patience_s)
        return PlayedWave(float(ends.max()), self.arrived, self.energy_j)

    def _lasts(self, n: int) -> tuple[float, float]:
        """How long a device will send, and how long its battery lets it."""
        sends = self.left[n] / self.rate[n] if self.rate[n] > 0.0 else math.inf
        return float(sends), float(self.charge_j[n] / self.wave.plan.power_w[n])

    def _advance(self, now: float) -> float:
        """To when the next device is ready or ends, or patience does; bits and joules wear off until then."""
        ends = min([math.inf, *(min(self._lasts(n)) for n in self.sending)])
        ready = self.ready[0][0] if self.ready else math.inf
        seconds, then = (ends, now + ends) if now + ends < ready else (ready - now, ready)
        if then > self.patience_s or then == math.inf:
            seconds, then = self.patience_s - now, self.patience_s
        for n in self.sending:
            joules = self.wave.plan.power_w[n] * seconds
            self.left[n] -= self.rate[n] * seconds
            self.charge_j[n] -= joules
            self.energy_j[n] += joules
        return then

    def _done(self, n: int) -> bool:
        return bool(self.left[n] <= 1e-12 * self.wave.problem.bits[n])

    def _empty(self, n: int) -> bool:
        return bool(self.charge_j[n] <= ROUNDING * self.energy_j[n])

    def _end(self, now: float) -> None:
        """Who has sent everything has arrived, who has no energy left has not."""
        for n in [n for n in self.sending if self._done(n) or self._empty(n)]:
            self.sending.remove(n)
            self.ends[n], self.arrived[n], self.hertz[n] = now, self._done(n), 0.0

    def _share(self, now: float) -> None:
        """Ask the discipline who gets how much."""
        active = [*self.sending, *self.waiting]
        if not active:
            return
        hertz = self.discipline.bandwidth(Active(
            planned_hz=self.wave.plan.bandwidth_hz[active], left_bits=self.left[active], snr_hz=self.snr_hz[active],
            sending=self.hertz[active], bandwidth_hz=self.bandwidth_hz), self.began + now)
        for n, hz in zip(active, hertz.tolist(), strict=True):
            self.hertz[n] = hz
            self.rate[n] = float(fdma_rate(hz, self.snr_hz[n])) if hz > 0.0 else 0.0
            if hz > 0.0 and n in self.waiting:
                self.waiting.remove(n)
                self.sending.append(n)
