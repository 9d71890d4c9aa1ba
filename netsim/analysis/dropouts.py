"""Devices that did not arrive in a round, the reasons, and the remedies."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from netsim.allocation.problem import KEPT_BACK
from netsim.analysis.counterfactuals import BAND, BUDGET, CPU, Change, WhatIfAnalysis
from netsim.base import units
from netsim.trace.schema import ARRIVED, BATTERY_EMPTY, DEADLINE

FACTORS = (1.1, 1.25, 1.5, 2.0, 4.0, 10.0)      # on a limit, tried in this order
MOST_SAVED = 5           # drop-outs whose remedies are computed; fewer of a round with many jobs:
MOST_JOBS = 2_000        # jobs times such drop-outs


@dataclass(frozen=True)
class Dropout:
    """A device that did not arrive."""

    device: int
    name: str
    reason: str               # as in the trace: "battery empty", "deadline", "infeasible"
    kept_by: tuple[str, ...]    # remedies in words: with each of them it arrives


def dropouts(there: WhatIfAnalysis) -> tuple[Dropout, ...]:
    """Return all devices that did not arrive; every remedy was simulated."""
    jobs = there.replays.jobs[there.number]
    lost = [(row["device"], row["outcome"]) for row in jobs.iter_rows(named=True) if row["outcome"] != ARRIVED]
    few = max(1, min(MOST_SAVED, MOST_JOBS // jobs.height))
    kept = [_remedies(there, device, reason) for device, reason in lost[:few]]
    kept += [()] * (len(lost) - len(kept))
    names = there.replays.names
    return tuple(Dropout(device, names[device], reason, by) for (device, reason), by in zip(lost, kept, strict=True))


def _remedies(there: WhatIfAnalysis, device: int, reason: str) -> tuple[str, ...]:
    """Return the battery charge, the deadline, and the smallest raised limits with which a device arrives."""
    said = [*_charge(there, device, reason), *_time(there, device, reason)]
    raised = {BATTERY_EMPTY: (), DEADLINE: ((CPU, device), (BAND, None))}
    for key, whose in raised.get(reason, ((BUDGET, device), (CPU, device), (BAND, None))):
        change = _least(there, device, key, whose)
        if change is not None:
            said.append(there.words(change))
    return tuple(said)


def _charge(there: WhatIfAnalysis, device: int, reason: str) -> list[str]:
    """Return the sufficient battery charge: the energy of its job with an unlimited battery."""
    here = np.asarray(there.problem.numbers) == device
    if reason == DEADLINE or there.charge_j[here][0] == math.inf or device in there.left_out_by_deadline():
        return []
    found = replace(there, charge_j=np.where(here, np.inf, there.charge_j)).play()
    place = found.place(device)
    if place is None or device not in found.arrived:
        return []
    wave, n = place
    enough_j = max(float(wave.plan.device_energy_j[n]), found.spent_j[device]) / (1.0 - KEPT_BACK)
    full_j = float(there.replays.engine.parts.population.battery_j[device])
    share = f" ({enough_j / full_j:.1%} of its capacity)" if enough_j < full_j else ""
    return [f"a battery that holds {units.format(enough_j, 'energy', up=True)} when the round begins{share}"]


def _time(there: WhatIfAnalysis, device: int, reason: str) -> list[str]:
    """Return the sufficient deadline: the longest wave without a deadline."""
    if there.deadline_s == math.inf or reason == BATTERY_EMPTY or device not in there.without_deadline.arrived:
        return []
    seconds = there.without_deadline.longest_s
    said = f" ({units.duration(seconds)})" if seconds >= units.SHORT_S else ""
    return [f"a deadline of {units.format(seconds, 'time', up=True)}{said}"]


def _least(there: WhatIfAnalysis, device: int, key: str, whose: int | None) -> Change | None:
    """Return the change with the smallest factor on a limit with which the device arrives; None if none suffices."""
    def arrives(factor: float) -> bool:
        found = there.played(Change(key, whose, factor))
        return found is not None and device in found.arrived

    most = there.most_factor(key, whose)
    factors = [factor for factor in FACTORS if factor <= most]
    if not factors or not arrives(factors[-1]):
        return None
    return Change(key, whose, next((factor for factor in factors[:-1] if arrives(factor)), factors[-1]))
