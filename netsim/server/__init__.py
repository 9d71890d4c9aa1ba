"""Servers, which dispatch jobs, wait for them and aggregate: a loop over the cell's interface, and a strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netsim.base.errors import InputError
from netsim.base.registry import Entry, Registry

if TYPE_CHECKING:
    from netsim.scenario import Scenario


def _check(name: str, found: Any) -> None:
    if not (isinstance(found, type) and all(hasattr(found, what) for what in ("loop", "select", "weights"))):
        raise InputError("wrong-interface", "server.kind", f'"{name}", which is no server',
                         "a subclass of netsim.server.strategy.Strategy, with the class of its loop")


SERVERS = Registry("server", "server.kind", {
    "synchronous": Entry("netsim.server.synchronous:WaitForAll", "rounds as long as their slowest device"),
    "first-k": Entry("netsim.server.synchronous:FirstK", "rounds that end with the first so many of a larger cohort"),
    "window": Entry("netsim.server.strategies:Window", "every so many seconds what has arrived, the late included"),
    "fedbuff": Entry("netsim.server.strategies:FedBuff", "a buffer of updates, weighed by their staleness"),
    "fedasync": Entry("netsim.server.strategies:FedAsync", "every arrival mixes into the model, less if it is stale"),
    "port": Entry("netsim.server.strategies:Port", "a buffer weighed by freshness and by where the updates point"),
}, check=_check)


def strategy_of(scenario: Scenario) -> Any:
    """The strategy that a scenario's [server] table describes; by default rounds that wait for all."""
    server = scenario.server
    return SERVERS.make("synchronous", {}) if server is None else SERVERS.make(server.kind, server.options)
