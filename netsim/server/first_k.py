"""Server ``first-k``: more devices than are needed, and the round ends with the first so many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field
from simpy.events import ProcessGenerator

from netsim.base.arrays import Ints
from netsim.base.errors import InputError
from netsim.base.fields import Natural
from netsim.learning.protocol import Learning
from netsim.scenario import Scenario
from netsim.selection import Selection
from netsim.server.cell_api import CellAPI
from netsim.server.history import History
from netsim.server.selector import Selector
from netsim.server.server import RunProgress
from netsim.server.synchronous import Synchronous
from netsim.trace.schema import DEADLINE, TOO_LATE

FirstSoMany = Annotated[Natural, Field(description="arrivals that end a round; at most selection.cohort")]


class FirstK(Synchronous):
    """Over-selection: of a cohort of ``selection.cohort``, the first ``buffer`` to arrive make the new model.

    The others are told to stop; what they have spent is spent. In a first round with everybody all are waited for.
    """

    def __init__(
        self, scenario: Scenario, selector: Selector, learning: Learning, history: History,
        closed: Callable[[RunProgress], None], buffer: FirstSoMany,
    ) -> None:
        super().__init__(scenario, selector, learning, history, closed)
        self.buffer = buffer

    @classmethod
    def check(cls, scenario: Scenario, selection: Selection, options: Mapping[str, Any]) -> None:
        if options["buffer"] > scenario.selection.cohort:
            raise InputError(f"server.buffer = {options['buffer']}: never full, since selection.cohort = "
                             f"{scenario.selection.cohort} is how many take part in a round; take at most as many")

    def wait(self, cell: CellAPI, jobs: Ints) -> ProcessGenerator:
        """Until enough jobs of a wave have arrived."""
        until = self.deadline(cell)
        missing = len(jobs) if self.is_first(cell) else self.buffer
        while missing > 0 and (left := cell.running()):
            yield cell.finished(left, until=until, count=1)
            if not (ended := cell.collect(1)):                               # the deadline is over
                break
            missing -= ended[0].arrived
        if cell.running():
            yield cell.cancel(cell.running(), TOO_LATE if missing <= 0 else DEADLINE)
            cell.collect()
