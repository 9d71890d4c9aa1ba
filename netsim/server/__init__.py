"""Who dispatches jobs, waits for them and aggregates: one server a file, over the cell's port."""

from __future__ import annotations

from typing import Any

from netsim.base.errors import InputError
from netsim.base.registry import Entry, Registry


def _check(name: str, found: Any) -> None:
    if not (isinstance(found, type) and all(hasattr(found, what) for what in ("run", "ended", "target_reached"))):
        raise InputError(f'server.kind: "{name}" is no server: a class with run(cell), ended(cell) and target_reached; '
                         "derive it from netsim.server.synchronous.Synchronous")


SERVERS = Registry("server", "server.kind", {
    "synchronous": Entry("netsim.server.synchronous:Synchronous", "rounds as long as their slowest device"),
}, given=5, check=_check)
