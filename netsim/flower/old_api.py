"""Support of Flower's legacy servers (``server_fn``, strategies with client proxies).

A legacy server sends each message from its own thread and receives replies in any order. Here each client proxy is
called twice instead: first to collect its message, then, after the cohort was simulated, to process its reply.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from flwr.app import Message

from netsim.flower.grid import CellGrid
from netsim.flower.library import replaced


@contextmanager
def old_servers(grid: CellGrid, evaluated: Callable[[int, dict[str, Any]], None]) -> Iterator[None]:
    """Run legacy servers on this grid inside the block; ``evaluated`` receives their centralised evaluations."""
    server, manager = import_module("flwr.server.server"), import_module("flwr.server.client_manager")
    history = import_module("flwr.server.history").History
    with (replaced(server, fit_clients=_together(grid, server.fit_client),
                   evaluate_clients=_together(grid, server.evaluate_client)),
          replaced(manager.SimpleClientManager, wait_for=_wait_for),
          replaced(history, add_loss_centralized=_heard(history.add_loss_centralized, "loss", evaluated),
                   add_metrics_centralized=_heard(history.add_metrics_centralized, "metrics", evaluated))):
        yield


class Gathered(Exception):  # noqa: N818 - control flow, not an error
    """Signal that a message was collected."""


def _together(grid: CellGrid, one: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement of ``fit_clients`` or ``evaluate_clients`` that sends a cohort together, in order."""
    def clients(client_instructions: Any, max_workers: Any, timeout: float | None, group_id: int) -> Any:
        instructions = list(client_instructions)
        kept: dict[int, Message] = {}           # by node
        replies: dict[int, Message] = {}

        def send_one(messages: Iterable[Message], **options: Any) -> list[Message]:
            [message] = messages
            node = message.metadata.dst_node_id
            if node in replies:
                return [replies[node]]
            kept[node] = message
            raise Gathered

        with replaced(grid, send_and_receive=send_one):
            for client, instruction in instructions:
                with suppress(Gathered):
                    one(client, instruction, timeout, group_id)
        replies.update(zip(kept, grid.send_and_receive(kept.values(), timeout=timeout), strict=True))
        results: list[Any] = []
        failures: list[Any] = []
        with replaced(grid, send_and_receive=send_one):
            for client, instruction in instructions:
                try:
                    result = one(client, instruction, timeout, group_id)
                except Exception as failure:
                    failures.append(failure)
                else:
                    (results if result[1].status.code.value == 0 else failures).append(result)
        return results, failures

    return clients


def _wait_for(self: Any, num_clients: int, timeout: int = 86400) -> bool:
    """Wait in simulated time; the grid's deadlock detection ends it."""
    while self.num_available() < num_clients:
        time.sleep(1)
    return True


def _heard(add: Callable[..., None], key: str, evaluated: Callable[[int, dict[str, Any]], None]) -> Any:
    def heard(self: Any, server_round: int, **found: Any) -> None:
        add(self, server_round, **found)
        value = found[key]
        numbers = value if isinstance(value, dict) else {key: value}
        evaluated(server_round, {name: number for name, number in numbers.items()
                                 if isinstance(number, int | float) and not isinstance(number, bool)})

    return heard
