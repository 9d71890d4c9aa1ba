"""Beyond the paper: waiting or not. Simulated time, energy and updates to a target accuracy, by server."""

from __future__ import annotations

from netsim.paper import trials, waiting
from netsim.paper.report import Report
from netsim.paper.reproduce import Context


def asynchronous(context: Context) -> Report | None:
    """What waiting costs, and what not waiting does."""
    trials.run_trials(waiting.planned(context), context, "asynchronous")
    return None
