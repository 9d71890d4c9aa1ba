"""Who did not arrive in a round, why, and what would have kept them."""

from __future__ import annotations

from dataclasses import dataclass

from netsim.analysis.changes import BAND, BUDGET, CPU, Change, Laboratory, limit_now
from netsim.base import units
from netsim.trace.schema import ARRIVED, BATTERY_EMPTY, DEADLINE

FACTORS = (1.1, 1.25, 1.5, 2.0, 4.0, 10.0)      # of a limit, tried one after the other
MOST_SAVED = 5           # drop-outs for whom a remedy is looked for


@dataclass(frozen=True)
class DropOut:
    """A device that did not arrive."""

    device: int
    name: str
    reason: str               # as in the trace: "battery empty", "deadline", "infeasible"
    kept_by: tuple[str, ...]    # changes that would have kept it, in words


def drop_outs(there: Laboratory, names: dict[int, str]) -> tuple[DropOut, ...]:
    """All who did not arrive; each remedy has been tried."""
    jobs = there.replays.jobs[there.replay.number]
    lost = [(row["device"], row["outcome"]) for row in jobs.iter_rows(named=True) if row["outcome"] != ARRIVED]
    kept = [_remedies(there, names, device, reason) for device, reason in lost[:MOST_SAVED]]
    kept += [()] * (len(lost) - len(kept))
    return tuple(DropOut(device, names[device], reason, by) for (device, reason), by in zip(lost, kept, strict=True))


def _remedies(there: Laboratory, names: dict[int, str], device: int, reason: str) -> tuple[str, ...]:
    """What would have kept a device: the charge or the time that it lacked, or the least raised limit that does."""
    said: list[str] = []
    place = there.was.place(device)
    if place is not None and reason == BATTERY_EMPTY:
        wave, n = place
        said.append(f"a battery that holds {units.format(float(wave.plan.device_energy_j[n]), 'energy', up=True)} when "
                    "the round begins")
    if place is not None and reason == DEADLINE:
        wave, n = place
        takes = float(there.replay.ends_s(wave)[n])
        said.append(f"a deadline of {units.format(takes, 'time', up=True)}")
    raised = {BATTERY_EMPTY: (), DEADLINE: ((CPU, device), (BAND, None))}
    for key, whose in raised.get(reason, ((BUDGET, device), (BAND, None))):
        change = _least(there, device, key, whose)
        if change is not None:
            said.append(change.words(names, limit_now(there.replay.problem, change, there.method)))
    return tuple(said)


def _least(there: Laboratory, device: int, key: str, whose: int | None) -> Change | None:
    """The first of some factors on a limit with which the device arrives."""
    for factor in FACTORS:
        change = Change(key, whose, factor)
        found = there.played(change)
        if found is not None and device in found.arrived:
            return change
    return None
