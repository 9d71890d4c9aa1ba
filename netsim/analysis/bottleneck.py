"""Bottleneck of a round: the limit whose increase shortens the round most, found by planning the round again.

The trace alone does not show it where all devices finish together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from netsim.allocation import METHODS, Infeasible
from netsim.analysis.counterfactuals import METHOD, WhatIfAnalysis
from netsim.analysis.explain import LITTLE, WhatIf, what_ifs
from netsim.analysis.replay import RoundReplays
from netsim.base.errors import InputError
from netsim.run import Run

MOST_PLANS = 2_000      # for all rounds together: a few seconds


@dataclass(frozen=True)
class Bottleneck:
    """Bottleneck of a round; ``changes`` with the largest saving first."""

    round: int
    round_s: float
    names: dict[int, str]
    changes: tuple[WhatIf, ...]
    last: int | None            # device that finishes clearly last; None where several finish together

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
        """The devices that limit the round: those of the best change; if that is the bandwidth, the last device."""
        best = self.best
        if best is None or best.device is None:
            return [] if self.last is None else [self.last]
        near = best.saves_s - LITTLE * self.round_s
        return sorted({each.device for each in self.helpful if each.device is not None and each.saves_s >= near})

    @property
    def sentence(self) -> str:
        """Sentences for people: the devices that limit the round, and the changes that shorten it most."""
        which, best = f"round {self.round}", self.best
        who = " and ".join(self.names[device] for device in self.devices[:2])
        who += f" and {len(self.devices) - 2} more" if len(self.devices) > 2 else ""
        if best is None:
            said = [f"No change of one limit would shorten {which}."]
        elif best.device is None:
            said = [f"The bandwidth limits {which}{f'; {who} finishes last' if who else ''}.", best.sentence("it")]
        else:
            said = [f"{who} {'limit' if len(self.devices) > 1 else 'limits'} {which}.", best.sentence("it")]
        top = next(iter(self.helpful), None)
        if top is not None and top.key == METHOD:
            said.append(top.sentence("it"))
        return " ".join(said)


def bottlenecks(run: Run, rounds: Iterable[int], left: int = MOST_PLANS) -> dict[int, Bottleneck]:
    """Return the bottlenecks of some rounds, up to a cost of ``left`` plans; rounds without a replay are left out."""
    try:
        replays = RoundReplays(run)
        replays.check_rounds()
    except InputError:
        return {}
    found: dict[int, Bottleneck] = {}
    stragglers = dict(run.breakdown().rounds.select("round", "straggler").iter_rows())
    for number in (each for each in rounds if each in replays.jobs):
        height = replays.jobs[number].height
        plans = (4 * min(height, replays.most_devices(height)) + len(METHODS)) * replays.dear
        left -= plans
        if left < 0 and (found or plans > MOST_PLANS):      # one round at least, unless it alone takes too long
            break
        try:
            there = WhatIfAnalysis.of(replays, number)
            last = stragglers.get(number) if len(there.was.agenda.waves) == 1 else None
            found[number] = Bottleneck(number, there.round_s, replays.names, what_ifs(there), last)
        except (InputError, Infeasible):
            continue
    return found
