"""Explanation of a round: the limits that bind, and the changes that shorten it, each planned and simulated again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from netsim.analysis.counterfactuals import (
    BAND,
    BATTERY,
    BUDGET,
    CPU,
    DEADLINE,
    POWER,
    RAISED,
    WITHOUT,
    Change,
    WhatIfAnalysis,
)
from netsim.analysis.dropouts import Dropout, dropouts
from netsim.analysis.explain_asynchronous import WholeRun, held_up, savings
from netsim.analysis.replay import Report, RoundReplays
from netsim.base import html, units
from netsim.base.errors import InputError
from netsim.base.pluralize import pluralize
from netsim.cell.schedulers import SCHEDULERS
from netsim.run import Run

MOST_PLANS = 4_000       # for a whole run; a longer run first tries all changes in a sample of its rounds,
MOST_CHANGES = 12        # then this number of changes in all rounds,
MOST_JOBS = 600_000      # jobs times their cost, for a whole run; more are simulated in a sample of the rounds
MOST_IN_TIME = 6         # or this number where rounds do not follow the plan: simulating them takes ten times as long
HALF = 0.5               # of the saving of leaving a device out: a limit of the device that saves this replaces it
LITTLE = 1e-6            # of a round: a limit that saves less does not bind
NEXT = 1.01              # factor on a limit: one per cent more
MOST_HELD = 6            # binding limits for which the saving of one per cent more is computed
FEW = 4                  # devices that a sentence names
NOTABLE_DB = 1.0         # smallest difference of a gain that is reported


@dataclass(frozen=True)
class Binding:
    """A limit that binds: raising it a little would shorten the round."""

    device: int | None          # None: of the cell
    name: str
    limit: str                  # "cpu_max", "budget", "battery", "power", "bandwidth" or "deadline"
    price_s_per_unit: float     # seconds for each Hz, J, W or s more; negative: shorter
    worth_s: float              # minus the price times the limit; limits are ranked by it
    next_s: float | None = None     # seconds that one per cent more saves, simulated; only of the first few limits


@dataclass(frozen=True)
class WhatIf:
    """The round, or the run, with one change."""

    change: str                 # in words, the subject of a sentence
    device: int | None          # None: of the cell
    key: str                    # "without", "cpu_max", "budget", "power", "bandwidth" or "method"
    factor: float | None        # on the limit
    round_s: float
    saves_s: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def sentence(self, shortened: str, digits: int = 3) -> str:
        """Return "Doubling ... would shorten the round by 46.1 ms (30.2%).", ``shortened`` being "the round"."""
        share = f" ({self.saves_s / (self.round_s + self.saves_s):.1%})"
        comma = "," if "," in self.change else ""
        return (f"{self.change[0].upper()}{self.change[1:]}{comma} would shorten {shortened} by "
                f"{units.duration(self.saves_s, digits)}{share}.")


@dataclass(frozen=True)
class Explanation:
    """Explanation of a round, or of a whole run (``round`` is None); ``what_if`` with the largest saving first.

    ``binding``   the limits that bind, the most important first; a deadline that binds last
    ``dropped``   devices that did not arrive, with reasons and remedies
    ``relaxed``   the factor by which all budgets had to be raised
    ``differs``   differences from the median round of the run, in sentences
    ``whole``     the run as a whole; None if one round was requested
    ``rounds``    of a long run with large cohorts: the rounds that were simulated again, evenly spread; else None
    ``aggregations``    of an asynchronous run (``round`` is None): ``round_s`` is the time of this aggregation
    """

    round: int | None
    round_s: float
    binding: tuple[Binding, ...]
    what_if: tuple[WhatIf, ...]
    dropped: tuple[Dropout, ...] = ()
    relaxed: float = 1.0
    differs: tuple[str, ...] = ()
    whole: Explanation | None = None
    rounds: tuple[int, ...] | None = None
    aggregations: int | None = None

    def _repr_html_(self) -> str:
        title = "the run as a whole" if self.round is None else f"round {self.round}"
        took = html.cell("round_s", self.round_s)
        held = html.table(f"{title}: {took}; binding limits, saving of 1 % more", ["device", "limit", "saves_s"],
                          [(each.name, each.limit, each.next_s) for each in self.binding])
        changes = html.table("changes that would help", ["change", "round_s", "saves_s"],
                             [(each.change, each.round_s, each.saves_s) for each in self.what_if])
        return held + changes + ("" if self.whole is None else self.whole._repr_html_())

    @property
    def subject(self) -> str:
        """Name of the period whose duration is ``round_s``."""
        if self.aggregations is not None:
            return f"the time to aggregation {self.aggregations}"
        return f"round {self.round}" if self.round is not None else "the run" if self.rounds is None else (
            f"{len(self.rounds)} evenly spread rounds")

    @property
    def answer(self) -> tuple[str, ...]:
        """The answer in a paragraph of sentences: duration, best change, missing devices, and the same for the run."""
        slowest = ", the slowest," if self.whole else ""
        verb = "is" if self.aggregations is not None else "took"
        said = [f"{self.subject}{slowest} {verb} {units.duration(self.round_s)}."]
        said += self.differs if self.aggregations is not None else ()
        best = self.best
        said.append("No change that was tried would shorten it." if best is None else best.sentence("it", 4))
        if self.dropped:
            said.append(f"{pluralize(len(self.dropped), 'device')} did not arrive.")
        if self.whole is not None and self.whole.best is not None:
            said.append(self.whole.best.sentence(self.whole.subject, 4))
        return tuple(said)

    @property
    def grouped(self) -> list[tuple[WhatIf, ...]]:
        """The changes, equal ones together: the same change of several devices, each with the same saving."""
        groups: dict[tuple[Any, ...], list[WhatIf]] = {}
        for each in self.what_if:
            about = each.change if each.device is None else ""
            shown = units.duration(each.round_s, 4), units.duration(each.saves_s, 4)
            groups.setdefault((each.key, each.factor, about, *shown), []).append(each)
        return [tuple(group) for group in groups.values()]

    @property
    def best(self) -> WhatIf | None:
        """The change with the largest saving; None if no change helps."""
        top = self.what_if[0] if self.what_if else None
        return top if top is not None and top.saves_s > LITTLE * self.round_s else None

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``netsim explain --json`` prints; of a whole run, its slowest round and ``run``."""
        content: dict[str, Any] = {
            "round": self.round, "round_s": self.round_s,
            "binding": [{"device": each.device, "name": each.name, "limit": each.limit,
                         "price_s_per_unit": each.price_s_per_unit} for each in self.binding],
            "what_if": [each.as_json() for each in self.what_if],
        }
        content |= {} if self.rounds is None else {"rounds": list(self.rounds)}
        if self.aggregations is not None:
            content |= {"aggregations": self.aggregations, "held_up": list(self.differs)}
        return content if self.whole is None else content | {"run": self.whole.as_json()}


def explain(
    run: Run, round: int | None = None, *, allow_import: bool = False, methods: bool = True,
    progress: Report | None = None,
) -> Explanation:
    """Explain one round; by default the slowest round and the run as a whole.

    ``methods=False`` leaves out other allocation methods, some of which are slow. ``progress`` is called with a text,
    the number of simulated changes or rounds, and their total.
    """
    replays = RoundReplays(run, allow_import=allow_import, methods=methods, report=progress or (lambda *_: None))
    if replays.asynchronous:
        return explain_aggregation(replays, round)
    replays.check_rounds()
    there = WhatIfAnalysis.of(replays, replays.slowest if round is None else round)
    agenda, lost = there.was.agenda, dropouts(there)
    if not agenda.waves:
        raise _without_plan(there, lost)
    changes = what_ifs(there)
    best = next((each.device for each in changes if each.device is not None), None)
    return Explanation(
        there.number, there.round_s, bindings(there), changes, lost, agenda.relaxed,
        differences(replays, there.number, best), whole_run(there) if round is None else None)


def _without_plan(there: WhatIfAnalysis, lost: tuple[Dropout, ...]) -> InputError:
    """Return the error for a round without a plan, with remedies and the rounds that have one."""
    planned, kept = there.replays.planned, next((each for each in lost if each.kept_by), None)
    remedy = f" Remedies for {kept.name}: {'; '.join(kept.kept_by)}." if kept else ""
    others = f" Rounds with a plan: {', '.join(map(str, planned[:8]))}{', …' if len(planned) > 8 else ''}."
    return InputError("infeasible", f"round {there.number}", "no device with a plan",
                      hint=f"There is nothing to shorten.{remedy}{others if planned else ''}")


def explain_aggregation(replays: RoundReplays, number: int | None) -> Explanation:
    """Explain an asynchronous run up to an aggregation; by default all of it, and its slowest aggregation."""
    shown = max(replays.jobs, key=lambda each: (replays.lengths[each], -each)) if number is None else number
    if shown not in replays.jobs:
        raise InputError("out-of-range", "round", str(shown), f"1 to {replays.run.last_round}",
                         "Aggregations without jobs have nothing to explain")
    there = WholeRun(replays, replays.run.last_round if number is None else number)
    whole_s, found = savings(there)
    return Explanation(
        None, whole_s, (), ranked(found, whole_s, there.words), differs=held_up(replays, shown),
        aggregations=there.last)


def what_ifs(there: WhatIfAnalysis) -> tuple[WhatIf, ...]:
    """Return all changes of a round that have a plan, the largest saving first."""
    found: dict[Change, float] = {}
    standing = list(there.standing())
    for done, change in enumerate(standing):
        there.replays.report(f"round {there.number}", done, len(standing))
        saves = there.saves(change)
        if saves is None:
            continue
        found[change] = saves
        if change.key in (CPU, BUDGET) and change.device is not None and saves > LITTLE * there.round_s:
            point = there.smallest_sufficient(change.key, change.device)
            further = there.saves(point) if point else None
            if point and further is not None:
                found[point] = further
    return ranked(found, there.round_s, there.words)


def ranked(found: dict[Change, float], round_s: float, words: Callable[[Change], str]) -> tuple[WhatIf, ...]:
    """Rank changes by their saving.

    Leaving a device out always saves more than improving it, but does not say what to improve. So it is not listed
    where raising a limit of the device saves at least half as much, and more than any change of the cell.
    """
    own: dict[int | None, float] = {}
    for change, saves in found.items():
        if change.key in RAISED or change.device is None:
            own[change.device] = max(saves, own.get(change.device, 0.0))

    def matters(change: Change, saves: float) -> bool:
        other = own.get(change.device, 0.0)
        return change.key != WITHOUT or other < HALF * saves or other <= own.get(None, 0.0)

    rows = [WhatIf(words(change), change.device, change.key, change.factor, round_s - saves, saves)
            for change, saves in found.items() if matters(change, saves)]
    return tuple(sorted(rows, key=lambda each: (-each.saves_s, each.factor or 0.0)))


def bindings(there: WhatIfAnalysis) -> tuple[Binding, ...]:
    """Return the limits that bind, the largest saving first.

    The deadline is last, if waves end on it or it excludes devices. Its price is the number of waves that end on it:
    each of them would be longer by as much as the deadline.
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


def _priced_limits(there: WhatIfAnalysis) -> list[tuple[Change, float]]:
    """Return limits with prices in seconds per unit; for methods without prices, by simulating one per cent more."""
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


def _measured_limits(there: WhatIfAnalysis) -> list[tuple[Change, float]]:
    found = []
    for limit in (Change(BAND), *(Change(key, device) for device in there.candidates() for key in RAISED)):
        twice, now = there.saves(replace(limit, factor=2.0)), there.limit(limit)
        if twice is not None and abs(twice) <= LITTLE * there.round_s:      # then one per cent changes nothing either
            continue
        saves = there.saves(replace(limit, factor=NEXT))
        if saves is not None and now is not None:
            found.append((limit, -saves / (now * (NEXT - 1.0))))
    return found


def whole_run(slowest: WhatIfAnalysis) -> Explanation:
    """Explain a whole run: the same changes in all rounds, each with its own cohort and plan."""
    replays = slowest.replays
    numbers = sorted(replays.jobs)
    heights = {number: replays.jobs[number].height for number in numbers}
    plans = sum(4 * height + len(replays.other_methods) + len(SCHEDULERS) for height in heights.values())
    picked = numbers[::math.ceil(plans * replays.dear / MOST_PLANS)]
    known = {slowest.number: slowest}
    found, limits = _summed(replays, picked, None, known)
    tried = numbers
    if len(picked) < len(numbers) or any(each > replays.most_devices(each) for each in heights.values()):
        few = MOST_CHANGES if replays.engine.as_planned else MOST_IN_TIME
        most = sorted(found, key=lambda change: -found[change])[:few]
        tried = numbers[::math.ceil(len(most) * sum(heights.values()) * replays.dear / MOST_JOBS)]
        found, limits = _summed(replays, tried, most, known)
    every_round = len(tried) == len(numbers)
    whole_s = math.fsum(replays.lengths[number] for number in (replays.lengths if every_round else tried))
    return Explanation(
        None, whole_s, (), ranked(found, whole_s, lambda change: change.words(replays.names, limits.get(change))),
        rounds=None if every_round else tuple(tried))


def _summed(
    replays: RoundReplays, numbers: list[int], wanted: list[Change] | None, known: dict[int, WhatIfAnalysis],
) -> tuple[dict[Change, float], dict[Change, float | None]]:
    """Return the sums over some rounds of the seconds that changes save, and the limits that they raise.

    A change without a plan in some round is left out; a device that is not in a cohort changes nothing there.
    """
    saved, limits, without_plan = dict[Change, float](), dict[Change, float | None](), set[Change]()
    for done, number in enumerate(numbers):
        replays.report("whole run", done, len(numbers))
        there = known.get(number) or WhatIfAnalysis.of(replays, number)
        if wanted is None:
            known[number] = there
        for change in there.standing() if wanted is None else filter(there.concerns, wanted):
            saves = None if change in without_plan else there.saves(change)
            if saves is None:
                without_plan.add(change)
                continue
            saved[change] = saved.get(change, 0.0) + saves
            limits[change] = there.limit(change)
    return {change: saves for change, saves in saved.items() if change not in without_plan}, limits


def differences(replays: RoundReplays, number: int, device: int | None) -> tuple[str, ...]:
    """Return the differences from the median round, in sentences; ``device`` limits the round, if one does."""
    lengths = {each: length for each, length in replays.lengths.items() if each in replays.jobs}
    if len(lengths) < 2:
        return ()
    median = sorted(lengths, key=lambda each: (lengths[each], each))[(len(lengths) - 1) // 2]
    now, usual = (units.duration(lengths[each]) for each in (number, median))
    sentences = [f"Round {number} took {now}; the median round ({median}) took {usual}."]
    if median != number:
        sentences.append(_other_devices(replays, number, median, device))
    if device is not None:
        sentences += _about_device(replays, number, lengths, device)
    return tuple(sentences)


def _other_devices(replays: RoundReplays, number: int, median: int, device: int | None) -> str:
    """Name the devices that took part in this round and not in the median round, the limiting device first."""
    here, there = (set(replays.jobs[each]["device"].to_list()) for each in (number, median))
    new, gone = sorted(here - there, key=lambda each: (each != device, each)), there - here
    if not new:
        return (f"The cohort has {pluralize(len(gone), 'device')} fewer than in the median round." if gone else
                "Both rounds have the same cohort.")
    more = f" and {len(new) - FEW} more" if len(new) > FEW else ""
    return f"Not in the median round: {', '.join(replays.names[each] for each in new[:FEW])}{more}."


def _about_device(replays: RoundReplays, number: int, lengths: dict[int, float], device: int) -> Iterator[str]:
    """Compare rounds with and without a device, and its gain in this round with its median gain."""
    name, gains = replays.names[device], dict(replays.run.jobs.filter(pl.col("device") == device).select(
        "round", "gain").iter_rows())
    with_it = [length for each, length in lengths.items() if each in gains]
    without = [length for each, length in lengths.items() if each not in gains]
    if with_it and without:
        mean = [units.duration(sum(some) / len(some)) for some in (with_it, without)]
        yield (f"Rounds with {name} ({len(with_it)} of {len(lengths)}) take {mean[0]} on average, "
               f"rounds without it {mean[1]}.")
    usual = float(np.median(list(gains.values())))
    better = units.db(gains[number]) - units.db(usual) if usual > 0.0 else 0.0
    if abs(better) >= NOTABLE_DB:
        yield f"The gain of {name} is {abs(better):.1f} dB {'above' if better > 0 else 'below'} its median in this run."
