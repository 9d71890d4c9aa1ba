"""Why a round took so long, and what would have made it shorter: each answer is a plan made anew, and played."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from netsim.analysis.changes import (
    BAND,
    BATTERY,
    BUDGET,
    CPU,
    DEADLINE,
    POWER,
    RAISED,
    WITHOUT,
    Change,
    Laboratory,
)
from netsim.analysis.drop_outs import DropOut, drop_outs
from netsim.analysis.replay import Replays
from netsim.base import html, units
from netsim.base.counts import counted
from netsim.base.errors import InputError
from netsim.cell.schedulers import SCHEDULERS

if TYPE_CHECKING:
    from netsim.run import Run

MOST_PLANS = 4_000       # for the run as a whole; of a longer one, some rounds say which changes matter
MOST_CHANGES = 12        # that are then played in all its rounds
MOST_IN_TIME = 6         # and where rounds do not go as planned: each takes ten times as long to play
HALF = 0.5               # of what leaving a device out saves: where a limit of its own brings that, it is the answer
LITTLE = 1e-6            # of a round: what a limit brings that is worth less does not bind
NEXT = 1.01              # times a limit: what its next per cent brings
MOST_HELD = 6            # limits of which that is told
FEW = 4                  # devices that a sentence names
NOTABLE_DB = 1.0         # a smaller change of a gain is not worth a word


@dataclass(frozen=True)
class Binding:
    """A limit that holds the round up: a little more of it, and the round would be shorter."""

    device: int | None          # None: of the cell
    name: str
    limit: str                  # "cpu_max", "budget", "battery", "power", "bandwidth" or "deadline"
    price_s_per_unit: float     # seconds for each Hz, J, W or s more; negative: shorter
    worth_s: float              # the price times the limit, by which they are ranked
    next_s: float | None = None     # what one per cent more really saves, planned anew; of the first few


@dataclass(frozen=True)
class WhatIf:
    """The round, or the run, with one thing changed."""

    change: str                 # in words
    device: int | None          # None: about the cell
    key: str                    # "without", "cpu_max", "budget", "power", "bandwidth" or "method"
    factor: float | None        # times as much as there was
    round_s: float
    saves_s: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Explanation:
    """Why a round, or a whole run (``round`` is None), took so long; ``what_if`` with the largest saving first.

    ``binding``   the limits that hold it up, the one that matters most first; a deadline that binds last
    ``dropped``   who did not arrive, why, and what would have kept them
    ``relaxed``   the factor by which all budgets had to be raised
    ``differs``   what is different from the median round of the run, in sentences
    ``whole``     the run as a whole; None where one round was asked for
    """

    round: int | None
    round_s: float
    binding: tuple[Binding, ...]
    what_if: tuple[WhatIf, ...]
    dropped: tuple[DropOut, ...] = ()
    relaxed: float = 1.0
    differs: tuple[str, ...] = ()
    whole: Explanation | None = None

    def _repr_html_(self) -> str:
        title = "the run as a whole" if self.round is None else f"round {self.round}"
        took = html.cell("round_s", self.round_s)
        held = html.table(f"{title}: {took}; what holds it up, and what 1 % more of it saves",
                          ["device", "limit", "saves_s"],
                          [(each.name, each.limit, each.next_s) for each in self.binding])
        changes = html.table("what would help", ["change", "round_s", "saves_s"],
                             [(each.change, each.round_s, each.saves_s) for each in self.what_if])
        return held + changes + ("" if self.whole is None else self.whole._repr_html_())

    @property
    def best(self) -> WhatIf | None:
        """What would help most; None where nothing would."""
        top = self.what_if[0] if self.what_if else None
        return top if top is not None and top.saves_s > LITTLE * self.round_s else None

    def as_json(self) -> dict[str, Any]:
        """As ``netsim explain --json`` prints it; of a whole run, its slowest round with ``run`` beside it."""
        told: dict[str, Any] = {
            "round": self.round, "round_s": self.round_s,
            "binding": [{"device": each.device, "name": each.name, "limit": each.limit,
                         "price_s_per_unit": each.price_s_per_unit} for each in self.binding],
            "what_if": [each.as_json() for each in self.what_if],
        }
        return told if self.whole is None else told | {"run": self.whole.as_json()}


def explain(
    run: Run, round: int | None = None, *, allow_import: bool = False, methods: bool = True,
) -> Explanation:
    """One round, by default the slowest one with the run as a whole beside it.

    ``methods=False`` leaves other allocation methods out, some of which take much longer than all the rest.
    """
    replays = Replays(run, allow_import=allow_import, methods=methods)
    number = replays.slowest if round is None else round
    there = Laboratory.of(replays, number)
    was, planned = there.was, replays.planned
    lost = drop_outs(there)
    if not was.agenda.waves:
        kept = next((each for each in lost if each.kept_by), None)
        remedy = f" {kept.name} would have had one with {' or '.join(kept.kept_by)}." if kept else ""
        others = f" Rounds with a plan: {', '.join(map(str, planned[:8]))}{', …' if len(planned) > 8 else ''}."
        raise InputError("infeasible", f"round {number}", "no device with a plan",
                         hint=f"There is nothing to shorten.{remedy}{others if planned else ''}")
    told = what_ifs(there)
    best = next((each.device for each in told if each.device is not None), None)
    return Explanation(
        number, there.round_s, bindings(there), told, lost, was.agenda.relaxed,
        differences(replays, number, best), whole_run(there) if round is None else None)


def what_ifs(there: Laboratory) -> tuple[WhatIf, ...]:
    """All changes of a round that have a plan, the largest saving first."""
    found: dict[Change, float] = {}
    for change in there.standing():
        saves = there.saves(change)
        if saves is None:
            continue
        found[change] = saves
        if change.key in (CPU, BUDGET) and change.device is not None and saves > LITTLE * there.round_s:
            point = there.to_the_point(change.key, change.device)
            further = there.saves(point) if point else None
            if point and further is not None:
                found[point] = further
    return ranked(found, there.round_s, there.words)


def ranked(found: dict[Change, float], round_s: float, words: Callable[[Change], str]) -> tuple[WhatIf, ...]:
    """The changes by what they save.

    Without a device a round is always shorter than with a better one, which is no answer to what is wrong with it. So
    that is left out where a limit of its own brings at least half as much, and more than any change of the cell.
    """
    own: dict[int | None, float] = {}
    for change, saves in found.items():
        if change.key in RAISED or change.device is None:
            own[change.device] = max(saves, own.get(change.device, 0.0))

    def told(change: Change, saves: float) -> bool:
        other = own.get(change.device, 0.0)
        return change.key != WITHOUT or other < HALF * saves or other <= own.get(None, 0.0)

    rows = [WhatIf(words(change), change.device, change.key, change.factor, round_s - saves, saves)
            for change, saves in found.items() if told(change, saves)]
    return tuple(sorted(rows, key=lambda each: (-each.saves_s, each.factor or 0.0)))


def bindings(there: Laboratory) -> tuple[Binding, ...]:
    """Which limits hold the round up, the dearest first; what is worth next to nothing, or has no price, does not.

    The deadline comes last, where waves end on it, or it leaves devices out. Its price is that of a little more: each
    wave that ends on it would be longer by just that.
    """
    names, held = there.replays.names, []
    for limit, price in _priced_limits(there):
        worth_s = -price * (there.limit(limit) or 0.0)
        if math.isfinite(worth_s) and worth_s > LITTLE * there.round_s:
            name = "the cell" if limit.device is None else names[limit.device]
            held.append(Binding(limit.device, name, limit.key, price, worth_s))
    held.sort(key=lambda each: -each.worth_s)
    held[:MOST_HELD] = [replace(each, next_s=there.saves(Change(each.limit, each.device, NEXT)))
                        for each in held[:MOST_HELD]]
    if there.was.on_deadline or there.left_out_by_deadline():
        held.append(Binding(None, "the cell", DEADLINE, float(there.was.on_deadline), 0.0))
    return tuple(held)


def _priced_limits(there: Laboratory) -> list[tuple[Change, float]]:
    """Limits with their prices in seconds per unit: by a method without prices, by what the next per cent brings."""
    found: list[tuple[Change, float]] = []
    band = 0.0
    for wave, prices in zip(there.was.agenda.waves, there.prices(), strict=True):
        if prices is None:
            return _measured_limits(there)
        band += prices.bandwidth_s_per_hz
        for key, price in ((CPU, prices.cpu_max_s_per_hz), (BUDGET, prices.budget_s_per_j),
                           (BATTERY, prices.battery_s_per_j), (POWER, prices.power_s_per_w)):
            found += [(Change(key, device), float(each))
                      for device, each in zip(wave.devices.tolist(), price, strict=True) if each < 0.0]
    return [(Change(BAND), band), *found]


def _measured_limits(there: Laboratory) -> list[tuple[Change, float]]:
    found = []
    for limit in (Change(BAND), *(Change(key, device) for device in there.candidates() for key in RAISED)):
        twice, now = there.saves(replace(limit, factor=2.0)), there.limit(limit)
        if twice is not None and abs(twice) <= LITTLE * there.round_s:      # then one per cent changes nothing either
            continue
        saves = there.saves(replace(limit, factor=NEXT))
        if saves is not None and now is not None:
            found.append((limit, -saves / (now * (NEXT - 1.0))))
    return found


def whole_run(slowest: Laboratory) -> Explanation:
    """The same changes over all rounds, each with its own cohort and plan; those of the slowest are known."""
    replays = slowest.replays
    numbers = sorted(replays.jobs)
    plans = sum(4 * replays.jobs[number].height + len(replays.other_methods) + len(SCHEDULERS) for number in numbers)
    picked = numbers[::math.ceil(plans * replays.dear / MOST_PLANS)]
    known = {slowest.number: slowest}
    found, limits = _summed(replays, picked, None, known)
    if len(picked) < len(numbers) or any(replays.jobs[number].height > replays.most_devices for number in numbers):
        most = sorted(found, key=lambda change: -found[change])[:MOST_CHANGES if replays.as_planned else MOST_IN_TIME]
        found, limits = _summed(replays, numbers, most, known)
    whole_s = math.fsum(replays.lengths.values())
    return Explanation(None, whole_s, (), ranked(
        found, whole_s, lambda change: change.words(replays.names, limits.get(change))))


def _summed(
    replays: Replays, numbers: list[int], wanted: list[Change] | None, known: dict[int, Laboratory],
) -> tuple[dict[Change, float], dict[Change, float]]:
    """What changes save in some rounds together, and the limits that they are about.

    A change without a plan in some round is left out; a device that is not in a cohort changes nothing there.
    """
    saved: dict[Change, float] = {}
    limits: dict[Change, float] = {}
    without_plan: set[Change] = set()
    for number in numbers:
        there = known[number] if number in known else Laboratory.of(replays, number)
        if wanted is None:
            known[number] = there
        cohort = set(np.asarray(there.problem.numbers).tolist())
        changes = there.standing() if wanted is None else (
            change for change in wanted if change.device is None or change.device in cohort)
        for change in changes:
            saves = None if change in without_plan else there.saves(change)
            if saves is None:
                without_plan.add(change)
                continue
            saved[change] = saved.get(change, 0.0) + saves
            now = there.limit(change)
            if now is not None:
                limits[change] = now
    return {change: saves for change, saves in saved.items() if change not in without_plan}, limits


def differences(replays: Replays, number: int, device: int | None) -> tuple[str, ...]:
    """What differs from the median round, in sentences; ``device`` is the one that sets the pace, if there is one."""
    lengths = {each: length for each, length in replays.lengths.items() if each in replays.jobs}
    if len(lengths) < 2:
        return ()
    median = sorted(lengths, key=lambda each: (lengths[each], each))[(len(lengths) - 1) // 2]
    now, usual = (units.format(lengths[each], "time") for each in (number, median))
    told = [f"The median round, {median}, took {usual}; this one {now}."]
    if median != number:
        told.append(_other_devices(replays, number, median, device))
    if device is not None:
        told += _about_device(replays, number, lengths, device)
    return tuple(told)


def _other_devices(replays: Replays, number: int, median: int, device: int | None) -> str:
    """Who is here and was not there, the device that sets the pace first."""
    here, there = (set(replays.jobs[each]["device"].to_list()) for each in (number, median))
    new, gone = sorted(here - there, key=lambda each: (each != device, each)), there - here
    if not new:
        return f"{counted(len(gone), 'device')} fewer than then." if gone else "The cohort is the same."
    more = f" and {len(new) - FEW} more" if len(new) > FEW else ""
    return f"This time and not then: {', '.join(replays.names[each] for each in new[:FEW])}{more}."


def _about_device(replays: Replays, number: int, lengths: dict[int, float], device: int) -> Iterator[str]:
    """How long rounds are with a device, and without it; its channel this time against its usual one."""
    name, gains = replays.names[device], dict(replays.run.jobs.filter(pl.col("device") == device).select(
        "round", "gain").iter_rows())
    with_it = [length for each, length in lengths.items() if each in gains]
    without = [length for each, length in lengths.items() if each not in gains]
    if with_it and without:
        mean = [units.format(sum(some) / len(some), "time") for some in (with_it, without)]
        yield (f"Rounds with {name} take {mean[0]} on average ({len(with_it)} of {len(lengths)}), "
               f"those without {mean[1]}.")
    usual = float(np.median(list(gains.values())))
    better = units.db(gains[number]) - units.db(usual) if usual > 0.0 else 0.0
    if abs(better) >= NOTABLE_DB:
        yield f"Its channel: {name}'s gain is {abs(better):.1f} dB {'above' if better > 0 else 'below'} its own median."
