"""Why a round took so long, and what would have made it shorter: each answer is a plan made anew, and played."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

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
    limit_now,
)
from netsim.analysis.drop_outs import DropOut, drop_outs
from netsim.analysis.names import device_names
from netsim.analysis.replay import Replays
from netsim.base import html
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
        return {"change": self.change, "device": self.device, "key": self.key, "factor": self.factor,
                "round_s": self.round_s, "saves_s": self.saves_s}


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
    from netsim.analysis.median_round import differences

    replays = Replays(run, allow_import=allow_import, methods=methods)
    names = dict(device_names(run.devices).iter_rows())
    number = replays.slowest if round is None else round
    there = Laboratory.of(replays, number)
    if not there.was.agenda.waves:
        _refuse(there, names)
    told = what_ifs(there, names)
    best = next((each.device for each in told if each.device is not None), None)
    return Explanation(
        number, replays.lengths[number], bindings(there, names), told, drop_outs(there, names),
        there.was.agenda.relaxed, differences(replays, number, best, names),
        whole_run(there, names) if round is None else None)


def _refuse(there: Laboratory, names: dict[int, str]) -> NoReturn:
    """Of a round in which nobody had a plan, say what would have made one."""
    lost = next((each for each in drop_outs(there, names) if each.kept_by), None)
    remedy = f" {lost.name} would have had one with {' or '.join(lost.kept_by)}." if lost else ""
    planned = there.replays.planned
    others = f" Rounds with a plan: {', '.join(map(str, planned[:8]))}{', …' if len(planned) > 8 else ''}."
    raise InputError("infeasible", f"round {there.replay.number}", "no device with a plan", hint="There is nothing to "
                     f"shorten.{remedy}{others if planned else ''}")


def what_ifs(there: Laboratory, names: dict[int, str]) -> tuple[WhatIf, ...]:
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
    return ranked(found, there.round_s, names, lambda change: limit_now(there.replay.problem, change, there.method))


def ranked(found: dict[Change, float], round_s: float, names: dict[int, str], now: Any) -> tuple[WhatIf, ...]:
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

    rows = [WhatIf(change.words(names, now(change)), change.device, change.key, change.factor, round_s - saves, saves)
            for change, saves in found.items() if told(change, saves)]
    return tuple(sorted(rows, key=lambda each: (-each.saves_s, each.factor or 0.0)))


def bindings(there: Laboratory, names: dict[int, str]) -> tuple[Binding, ...]:
    """Which limits hold the round up, and at what price."""
    found: list[Binding] = []
    band = 0.0
    for wave, prices in zip(there.was.agenda.waves, there.prices(), strict=True):
        if prices is None:
            return _measured_bindings(there, names)
        band += prices.bandwidth_s_per_hz
        for key, price in ((CPU, prices.cpu_max_s_per_hz), (BUDGET, prices.budget_s_per_j),
                           (BATTERY, prices.battery_s_per_j), (POWER, prices.power_s_per_w)):
            found += [_binding(there, names, Change(key, device), float(price[n]))
                      for n, device in enumerate(wave.devices.tolist()) if price[n] < 0.0]
    return (*_sorted([_binding(there, names, Change(BAND), band), *found], there), *_deadline(there))


def _deadline(there: Laboratory) -> tuple[Binding, ...]:
    """The deadline where it binds: waves end on it, or it leaves devices out, and the round is the shorter for it.

    Its price is that of a little more: each wave that ends on it would be longer by just that.
    """
    if not there.was.on_deadline and not there.left_out_by_deadline():
        return ()
    return (Binding(None, "the cell", DEADLINE, float(there.was.on_deadline), 0.0),)


def _measured_bindings(there: Laboratory, names: dict[int, str]) -> tuple[Binding, ...]:
    """The same by a method without prices: by how much the next per cent of each limit shortens the round."""
    limits = [Change(BAND), *(Change(key, device) for device in there.candidates() for key in RAISED)]
    found: list[Binding] = []
    for limit in limits:
        twice = there.saves(replace(limit, factor=2.0))
        if twice is not None and abs(twice) <= LITTLE * there.round_s:      # then one per cent changes nothing either
            continue
        change = replace(limit, factor=NEXT)
        saves = there.saves(change)
        now = limit_now(there.replay.problem, change, there.method)
        if saves is not None and now is not None:
            found.append(_binding(there, names, change, -saves / (now * (NEXT - 1.0))))
    return (*_sorted(found, there), *_deadline(there))


def _binding(there: Laboratory, names: dict[int, str], change: Change, price: float) -> Binding:
    now = there.charge_j(change.device) if change.key == BATTERY else limit_now(
        there.replay.problem, change, there.method)
    name = "the cell" if change.device is None else names[change.device]
    return Binding(change.device, name, change.key, price, -price * (now or 0.0))


def _sorted(found: Iterable[Binding], there: Laboratory) -> tuple[Binding, ...]:
    """The dearest first; what is worth next to nothing, or has no price, does not bind."""
    least = LITTLE * there.round_s
    held = sorted((each for each in found if math.isfinite(each.worth_s) and each.worth_s > least),
                  key=lambda each: -each.worth_s)
    told = [replace(each, next_s=there.saves_next(Change(each.limit, each.device, NEXT))) for each in held[:MOST_HELD]]
    return (*told, *held[MOST_HELD:])


def whole_run(slowest: Laboratory, names: dict[int, str]) -> Explanation:
    """The same changes over all rounds, each with its own cohort and plan; those of the slowest are known."""
    replays = slowest.replays
    numbers = sorted(replays.jobs)
    plans = sum(4 * replays.jobs[number].height + len(replays.other_methods) + len(SCHEDULERS) for number in numbers)
    picked = numbers[::math.ceil(plans * replays.dear / MOST_PLANS)]
    known = {slowest.replay.number: slowest}
    found, limits = _summed(replays, picked, None, known)
    if len(picked) < len(numbers) or any(replays.jobs[number].height > replays.most_devices for number in numbers):
        most = sorted(found, key=lambda change: -found[change])[:MOST_CHANGES if replays.as_planned else MOST_IN_TIME]
        found, limits = _summed(replays, numbers, most, known)
    return Explanation(None, math.fsum(replays.lengths.values()), (), ranked(
        found, math.fsum(replays.lengths.values()), names, limits.get))


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
        cohort = set(np.asarray(there.replay.problem.numbers).tolist())
        changes = there.standing() if wanted is None else (
            change for change in wanted if change.device is None or change.device in cohort)
        for change in changes:
            saves = None if change in without_plan else there.saves(change)
            if saves is None:
                without_plan.add(change)
                continue
            saved[change] = saved.get(change, 0.0) + saves
            now = limit_now(there.replay.problem, change, there.method)
            if now is not None:
                limits[change] = now
    return {change: saves for change, saves in saved.items() if change not in without_plan}, limits
