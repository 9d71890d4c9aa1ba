"""Who dispatches jobs, waits for them and aggregates: one server a file, over the cell's port."""

from __future__ import annotations

from typing import Any

from netsim.base.errors import InputError
from netsim.base.registry import Entry, Registry


def _check(name: str, found: Any) -> None:
    if not (isinstance(found, type) and all(hasattr(found, what) for what in ("run", "ended", "target_reached"))):
        raise InputError(f'server.kind: "{name}" is no server: a class with run(cell), ended(cell) and target_reached; '
                         "derive it from netsim.server.server.Server")


SERVERS = Registry("server", "server.kind", {
    "synchronous": Entry("netsim.server.synchronous:Synchronous", "rounds as long as their slowest device"),
    "first-k": Entry("netsim.server.first_k:FirstK", "rounds that end with the first so many of a larger cohort"),
    "window": Entry("netsim.server.window:Window", "every so many seconds what has arrived, the late included"),
    "fedbuff": Entry("netsim.server.fedbuff:FedBuff", "a buffer of updates, weighed by their staleness"),
    "fedasync": Entry("netsim.server.fedasync:FedAsync", "every arrival mixes into the model, less if it is stale"),
    "port": Entry("netsim.server.port:Port", "a buffer weighed by freshness and by where the updates point"),
}, given=5, check=_check)
