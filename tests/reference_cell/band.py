"""Who gets how much of the band, and how many bits per second that carries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from scipy.optimize import brentq

ROUNDING = 1e-9       # needs may exceed the band, and an upload its budget, by this part


@dataclass(frozen=True)
class Link:
    """Bits per second: efficiency * min(b log2(1 + J/b), cap b)."""

    efficiency: float
    cap: float

    def rate(self, hz: float, snr_hz: float) -> float:
        return self.efficiency * min(shannon(hz, snr_hz), self.cap * hz)

    def bandwidth(self, rate: float, snr_hz: float) -> float:
        return max(bandwidth(rate / self.efficiency, snr_hz), rate / (self.efficiency * self.cap))


def shannon(hz: float, snr_hz: float) -> float:
    return hz * math.log1p(snr_hz / hz) / math.log(2.0) if hz > 0.0 else 0.0


def bandwidth(rate: float, snr_hz: float) -> float:
    """The b with b log2(1 + J/b) = rate; inf where no bandwidth is enough."""
    y = rate * math.log(2.0) / snr_hz                   # s = ln(1 + J/b) solves s = y (e^s - 1)
    if y >= 1.0:
        return math.inf
    s = 2.0 * (1.0 - y) - 2.0 * math.log(y)
    for _ in range(200):                                # Newton from above, where the function is concave
        step = (s - y * math.expm1(s)) / (1.0 - y * math.exp(s))
        s -= step
        if abs(step) <= 1e-16 * s:
            break
    return rate * math.log(2.0) / s


def shares(rule: str, jobs: list[Any], band_hz: float, link: Link) -> list[float]:
    """Hertz for jobs that want to send: those on the air in the order in which they started, then the queue."""
    if rule == "equal":
        return [band_hz / len(jobs)] * len(jobs)
    if rule == "tdma":
        first = next((i for i, job in enumerate(jobs) if job.hz > 0.0), 0)
        return [band_hz if i == first else 0.0 for i in range(len(jobs))]
    return planned(jobs, band_hz) if rule == "planned" else common_end(jobs, band_hz, link)


def planned(jobs: list[Any], band_hz: float) -> list[float]:
    """Those on the air keep their planned share, or what is left of the band; then the queue, without overtaking."""
    room, given = band_hz * (1.0 + ROUNDING), [0.0] * len(jobs)
    for i, job in enumerate(jobs):
        if job.hz > 0.0:
            given[i] = job.planned_hz if job.planned_hz <= room else max(0.0, room - 2.0 * ROUNDING * band_hz)
            room -= given[i]
    for i, job in enumerate(jobs):
        if job.hz == 0.0 and job.planned_hz > 0.0:        # a job whose slot has not come lets others start
            if job.planned_hz > room:
                break
            given[i] = job.planned_hz
            room -= given[i]
    return given


def common_end(jobs: list[Any], band_hz: float, link: Link) -> list[float]:
    """All end together, or when their budgets are spent; budgets that cannot be kept do not count."""
    bits = [max(job.left, 1e-100) for job in jobs]
    snr = [job.snr_hz for job in jobs]
    alone = [z / link.rate(band_hz, j) for z, j in zip(bits, snr, strict=True)]
    lasts = [job.affordable_s if a <= job.affordable_s * (1.0 + ROUNDING) else math.inf
             for job, a in zip(jobs, alone, strict=True)]

    def needs(x: float) -> list[float]:
        return [link.bandwidth(z / min(x, last), j) if min(x, last) < math.inf else 0.0
                for z, j, last in zip(bits, snr, lasts, strict=True)]

    if sum(needs(math.inf)) > band_hz * (1.0 + ROUNDING):
        lasts = [math.inf] * len(jobs)
    low = high = max(alone)
    while sum(needs(high)) > band_hz * (1.0 + ROUNDING):
        high *= 2.0
    if sum(needs(low)) > band_hz and sum(needs(high)) < band_hz:
        high = float(brentq(lambda x: min(sum(needs(x)), 1e300) / band_hz - 1.0, low, high, xtol=1e-300, rtol=9e-16))
    found = needs(high)
    return [hz * band_hz / sum(found) for hz in found]
