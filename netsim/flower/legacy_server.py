"""Support of Flower's legacy servers (``server_fn``, strategies with client proxies).

A legacy server sends each message from its own thread and receives replies in any order. Here each client proxy is
called twice instead: first to collect its message, then, after the cohort was simulated, to process its reply.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from flwr.app import Message

from netsim.flower.app_server import AppServer
from netsim.flower.grid import CellGrid
from netsim.flower.version_check import replaced

MODEL_RECORD = "parameters"      # of the global model in the context of a legacy workflow


@contextmanager
def old_servers(grid: CellGrid, app_server: AppServer, ended: Callable[[Any], None]) -> Iterator[None]:
    """Run legacy servers on this grid inside the block; report their evaluations, rounds and last model."""
    server, manager = import_module("flwr.server.server"), import_module("flwr.server.client_manager")
    history, evaluated = import_module("flwr.server.history").History, app_server.replies.reported.server

    def wait_for(self: Any, num_clients: int, timeout: int = 86400) -> bool:
        while self.num_available() < num_clients:
            grid.sleep(1.0)                        # in simulated time; the grid's deadlock detection ends it
        return True

    def fitted(self: Any, num_rounds: int, timeout: float | None) -> Any:
        app_server.expected = app_server.rounds.version + num_rounds
        try:
            return fit(self, num_rounds, timeout)
        finally:
            compat = import_module("flwr.server.workflow.default_workflows").compat
            ended(compat.parameters_to_arrayrecord(self.parameters, keep_input=True))

    fit = server.Server.fit
    with (replaced(server, fit_clients=_together(grid, server.fit_client),
                   evaluate_clients=_together(grid, server.evaluate_client)),
          replaced(manager.SimpleClientManager, wait_for=wait_for), replaced(server.Server, fit=fitted),
          _workflows(app_server, ended),
          replaced(history, add_loss_centralized=_heard(history.add_loss_centralized, "loss", evaluated),
                   add_metrics_centralized=_heard(history.add_metrics_centralized, "metrics", evaluated))):
        yield


@contextmanager
def _workflows(app_server: AppServer, ended: Callable[[Any], None]) -> Iterator[None]:
    """Report rounds and last model of legacy workflows inside the block; the four stages of SecAgg+ are one round."""
    workflow: Any = sys.modules.get("flwr.server.workflow")
    if workflow is None:               # slow to import, and not used by the app
        yield
        return
    masked, flow = workflow.SecAggPlusWorkflow.__call__, workflow.DefaultWorkflow.__call__

    def in_one_round(self: Any, *args: Any, **options: Any) -> None:
        with app_server.one_round():
            masked(self, *args, **options)

    def executed(self: Any, grid: Any, context: Any) -> None:
        app_server.expected = app_server.rounds.version + context.config.num_rounds
        try:
            flow(self, grid, context)
        finally:
            ended(context.state.array_records.get(MODEL_RECORD))

    with (replaced(workflow.SecAggPlusWorkflow, __call__=in_one_round),
          replaced(workflow.DefaultWorkflow, __call__=executed)):
        yield


class MessageCollected(Exception):  # noqa: N818 - control flow, not an error
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
            raise MessageCollected

        with replaced(grid, send_and_receive=send_one):
            for client, instruction in instructions:
                with suppress(MessageCollected):
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


def _heard(add: Callable[..., None], key: str, evaluated: Callable[[int, dict[str, Any]], None]) -> Any:
    def heard(self: Any, server_round: int, **found: Any) -> None:
        add(self, server_round, **found)
        evaluated(server_round, found[key] if isinstance(found[key], dict) else {key: found[key]})

    return heard
