"""How the band is shared among those who want to send at an instant: one discipline a file."""

from __future__ import annotations

from typing import Any, Protocol

from netsim.allocation.sharing import Active
from netsim.base.arrays import Floats
from netsim.base.errors import InputError
from netsim.base.registry import Entry, Registry


class Discipline(Protocol):
    """Says who gets how much of the band; asked anew whenever somebody starts, ends, or the world changes.

    ``fixed`` promises that whoever fits gets what was planned and keeps it, so that nobody has to be asked about others
    as long as nobody waits. One that also has a true ``alone`` promises the whole band to whoever sends.
    """

    @property
    def fixed(self) -> bool: ...

    def bandwidth(self, active: Active, now: float) -> Floats:
        """Hertz for each, 0 for who has to wait, and no more than the band in all."""


def _check(name: str, found: Any) -> None:
    if not (isinstance(found, type) and hasattr(found, "bandwidth") and hasattr(found, "fixed")):
        raise InputError(f'allocation.sharing: "{name}" is no discipline: a class with "fixed" and '
                         "bandwidth(active, now)")


DISCIPLINES = Registry("discipline", "allocation.sharing", {
    "planned": Entry("netsim.cell.disciplines.planned:Planned", "the share that the plan gave, from start to end"),
    "equal": Entry("netsim.cell.disciplines.equal:Equal", "equal parts, divided anew at each start and end"),
    "adaptive": Entry("netsim.cell.disciplines.adaptive:Adaptive",
                      "divided anew so that all who send end together, within what their budgets still pay for"),
    "tdma": Entry("netsim.cell.disciplines.tdma:Tdma", "the whole band for one after the other, first ready first"),
}, check=_check)
