"""Base class of server strategies: selection of devices, and weights of updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from netsim.base.types import Floats, Ints
from netsim.learning.backend import Base
from netsim.selection import Choice, Selection
from netsim.selection.view import View

if TYPE_CHECKING:
    from netsim.scenario import Scenario


@dataclass(frozen=True, eq=False)
class Updates:
    """The n updates of an aggregation, in the order of their summation; arrays of shape (n,).

    Parameters
    ----------
    jobs, device : array of int
        Numbers of the jobs, and of their devices.
    staleness : array of int
        Number of aggregations since the start of each job.
    samples : array of float
        Training samples D_n of each device; 1 if unknown.
    alignment : callable
        Returns an array: the cosine between each update and the change of the global model since its job started.
    chances : array of float, optional
        Probabilities with which the devices were drawn, if the selection method reports them.
    """

    jobs: Ints
    device: Ints
    staleness: Ints
    samples: Floats
    alignment: Callable[[], Floats]
    chances: Floats | None = None


class Strategy:
    """A kind of server; a subclass is a frozen dataclass whose fields are the options of the [server] table.

    Attributes
    ----------
    loop : type
        The `Server` class that runs the rounds.
    base : {"start", "now"}
        Model that an update is the difference from: the one its job started from, or the newest one.
    waits : bool
        True if all jobs of a round start and end in it.
    barrier : bool
        True if devices with finished jobs wait for the aggregation.
    """

    loop: ClassVar[type[Any]]
    base: ClassVar[Base] = "start"
    waits: ClassVar[bool] = True
    barrier: ClassVar[bool] = True

    def select(self, view: View, choose: Callable[[View], Choice]) -> Choice:
        """Select the devices that start a job; by default with the scenario's selection method.

        Parameters
        ----------
        view : View
            State of the devices, and the number of devices wanted (``view.cohort_size``).
        choose : callable
            The scenario's selection method: ``choose(view)`` returns a `Choice`.

        Returns
        -------
        Choice
            The selected devices.
        """
        return choose(view)

    def weights(self, updates: Updates) -> Floats | None:
        """Return the weights of updates in the new model w + sum_i weights_i (x_i - base_i).

        Parameters
        ----------
        updates : Updates
            The n updates to aggregate.

        Returns
        -------
        array of float, shape (n,), or None
            Weights; None for those of ``learning.aggregation``.
        """
        return None

    def check(self, scenario: Scenario, selection: Selection) -> None:
        """Raise InputError for a scenario that this kind of server cannot run.

        Parameters
        ----------
        scenario : Scenario
            The scenario, with a [server] table of this kind.
        selection : Selection
            Its selection method.
        """

    def idle(self, scenario: Scenario) -> Mapping[str, str]:
        """Return the scenario keys without effect for this kind of server, each with the reason.

        Parameters
        ----------
        scenario : Scenario
            The scenario, with a [server] table of this kind.

        Returns
        -------
        mapping of str to str
            Reasons by key; an error message prints one after ``server.kind "NAME"``.
        """
        return {}
