"""What distinguishes one server from another: whom it selects, and how much each update counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from netsim.base.arrays import Floats, Ints
from netsim.learning.protocol import Base
from netsim.selection import Choice, Selection
from netsim.selection.view import View

if TYPE_CHECKING:
    from netsim.scenario import Scenario


@dataclass(frozen=True, eq=False)
class Updates:
    """What makes a new model, an entry for each update, in the order in which they are added up.

    Parameters
    ----------
    jobs, device : array of int
        Numbers of the jobs, and of their devices.
    staleness : array of int
        Aggregations since each job began.
    samples : array of float
        D_n of each device; 1 where it is not known.
    alignment : callable
        Returns the cosine between each update and the way that the global model has gone since its job began.
    chances : array of float, optional
        With which the devices were drawn, where selection says so.
    """

    jobs: Ints
    device: Ints
    staleness: Ints
    samples: Floats
    alignment: Callable[[], Floats]
    chances: Floats | None = None


class Strategy:
    """A kind of server: the options of a scenario's [server] table are the fields of a (frozen) dataclass.

    ``loop`` is the server that plays by it. ``base`` is what an update is the difference from: the model that its job
    started from ("start"), or the newest ("now"). ``waits`` is whether all jobs of a round begin and end in it,
    ``barrier`` whether devices that are done wait for the aggregation.
    """

    loop: ClassVar[type[Any]]              # of Server
    base: ClassVar[Base] = "start"
    waits: ClassVar[bool] = True
    barrier: ClassVar[bool] = True

    def select(self, view: View, choose: Callable[[View], Choice]) -> Choice:
        """Which devices begin a job; ``choose`` asks the scenario's selection method.

        Parameters
        ----------
        view : View
            The devices, and how many are wanted (``view.cohort_size``).
        choose : callable
            The scenario's selection method.
        """
        return choose(view)

    def weights(self, updates: Updates) -> Floats | None:
        """How much each update counts: w + sum_i weights_i (x_i - base_i); None leaves it to learning.aggregation."""
        return None

    def check(self, scenario: Scenario, selection: Selection) -> None:
        """Raise InputError where a scenario does not fit."""

    def idle(self, scenario: Scenario) -> Mapping[str, str]:
        """Keys that have no effect with this kind of server, with the reason."""
        return {}
