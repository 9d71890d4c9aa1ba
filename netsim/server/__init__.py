"""Federated-learning servers: a loop that dispatches and waits for jobs in the cell, and an aggregation strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netsim.base.errors import InputError
from netsim.base.registry import Entry, Registry

if TYPE_CHECKING:
    from netsim.scenario import Scenario


def _check(name: str, found: Any) -> None:
    if not (isinstance(found, type) and all(hasattr(found, what) for what in ("loop", "select", "weights"))):
        raise InputError("wrong-interface", "server.kind", f'"{name}", which is not a server',
                         "a subclass of netsim.server.strategy.Strategy, with a Server class as its loop")


SERVERS = Registry("server", "server.kind", {
    "synchronous": Entry("netsim.server.synchronous:WaitForAll", "rounds that wait for their slowest device"),
    "first-k": Entry("netsim.server.synchronous:FirstK", "over-selection: a round ends with its first k arrivals"),
    "window": Entry("netsim.server.asynchronous_strategies:Window",
                    "rounds of a fixed length; late updates count in a later one"),
    "fedbuff": Entry("netsim.server.asynchronous_strategies:FedBuff",
                     "asynchronous, with a buffer and staleness weighting"),
    "fedasync": Entry("netsim.server.asynchronous_strategies:FedAsync",
                      "asynchronous: each update is mixed into the model"),
    "port": Entry("netsim.server.asynchronous_strategies:Port",
                  "asynchronous, with a buffer weighted by freshness and similarity"),
}, check=_check)


def strategy_of(scenario: Scenario) -> Any:
    """Return the strategy of a scenario's [server] table; by default synchronous rounds."""
    server = scenario.server
    return SERVERS.make("synchronous", {}) if server is None else SERVERS.make(server.kind, server.options)
