"""Who sets the pace of a round: the trace does not show it where all end together, plans made anew do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netsim.allocation import METHODS, Infeasible
from netsim.analysis.changes import METHOD, WITHOUT, Laboratory
from netsim.analysis.explain import LITTLE, WhatIf, what_ifs
from netsim.analysis.replay import Replays
from netsim.base import units
from netsim.base.errors import InputError

if TYPE_CHECKING:
    from netsim.run import Run

MOST_PLANS = 2_000      # for many rounds: a few seconds of work


@dataclass(frozen=True)
class Pace:
    """What holds a round up, by plans made anew; ``changes`` with the largest saving first."""

    round: int
    round_s: float
    names: dict[int, str]
    changes: tuple[WhatIf, ...]
    last: int | None            # who ends clearly after all others; None where several end together

    @property
    def helpful(self) -> list[WhatIf]:
        """The changes that make the round shorter."""
        return [each for each in self.changes if each.saves_s > LITTLE * self.round_s]

    @property
    def best(self) -> WhatIf | None:
        """The change of one limit that helps most; None where none helps."""
        return next((each for each in self.helpful if each.key != METHOD), None)

    @property
    def devices(self) -> list[int]:
        """Who sets the pace: whom the best change is about; where that is the band, who ends last, if it is one."""
        best = self.best
        if best is None or best.device is None:
            return [] if self.last is None else [self.last]
        near = best.saves_s - LITTLE * self.round_s
        return sorted({each.device for each in self.helpful if each.device is not None and each.saves_s >= near})

    @property
    def sentence(self) -> str:
        """Who sets the pace, and what would help."""
        which, best = f"round {self.round}", self.best
        who = " and ".join(self.names[device] for device in self.devices[:2])
        who += f" and {len(self.devices) - 2} more" if len(self.devices) > 2 else ""
        if best is None:
            told = f"No change of one limit would shorten {which}."
        elif best.device is None:
            told = f"It is the band that holds up {which}{f', in which {who} ends last' if who else ''}: "
        else:
            told = f"{who} {'set' if len(self.devices) > 1 else 'sets'} the pace in {which}: "
        top = next(iter(self.helpful), None)
        said = [told + (f"{self._would(best)}." if best else "")]
        if top is not None and top.key == METHOD:
            said.append(f"W{self._would(top)[1:]}.")
        return " ".join(said)

    def _would(self, change: WhatIf) -> str:
        shorter = f"{units.format(change.saves_s, 'time', 3)} ({change.saves_s / self.round_s:.1%}) shorter"
        comma = "," if "," in change.change else ""
        return f"{'' if change.key == WITHOUT else 'with '}{change.change}{comma} it would be {shorter}"


def paces(run: Run, rounds: Iterable[int], left: int = MOST_PLANS) -> dict[int, Pace]:
    """What holds up many rounds, as far as so many plans reach; a round that cannot be planned again is left out."""
    try:
        replays = Replays(run)
    except InputError:
        return {}
    found: dict[int, Pace] = {}
    stragglers = dict(run.breakdown().rounds.select("round", "straggler").iter_rows())
    for number in rounds:
        if number not in replays.jobs:
            continue
        plans = (4 * min(replays.jobs[number].height, replays.most_devices) + len(METHODS)) * replays.dear
        left -= plans
        if left < 0 and (found or plans > MOST_PLANS):      # one round at least, unless it alone takes too long
            break
        try:
            there = Laboratory.of(replays, number)
            last = stragglers.get(number) if len(there.was.agenda.waves) == 1 else None
            found[number] = Pace(number, there.round_s, replays.names, what_ifs(there), last)
        except (InputError, Infeasible):
            continue
    return found
