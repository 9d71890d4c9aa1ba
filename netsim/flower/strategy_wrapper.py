"""Strategy wrapper that simulates every round in the cell, while the app runs in Flower's own engine.

Flower's engine trains, on its own workers and GPUs; netsim plans and simulates the uploads of the replies, and passes
to the strategy only those that arrive.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, nullcontext
from functools import partialmethod
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from netsim.base.errors import InputError
from netsim.base.files import folder_for
from netsim.flower.app_server import AppServer, RunOver
from netsim.flower.messages import ClientReply, SentMessage
from netsim.flower.runtime_environment import reporting
from netsim.flower.scenario_subset import AppLearning, app_scenario
from netsim.flower.version_check import replaced
from netsim.run import Run
from netsim.scenario import Scenario
from netsim.session import Session, journal_of, open_session
from netsim.validation import validate_cell

STEPS = ("configure_train", "aggregate_train", "configure_evaluate", "aggregate_evaluate")
MOST_ASKED = 3             # calls of get_node_ids before the strategy is taken to wait for more nodes


class InCell(Strategy):  # type: ignore[misc]
    """Strategy in a scenario's cell; after ``start``, ``run`` is the simulated run.

    Use it in a ServerApp as ``InCell(FedAvg(), load_scenario("quickstart")).start(grid, arrays, num_rounds=3)``. Nodes
    are mapped to devices in the order of their ids.

    ``strategy`` selects and aggregates. The other arguments are those of :func:`netsim.simulate`; without ``out``, the
    run is deleted with this object.
    """

    def __init__(
        self, strategy: Strategy, scenario: Scenario, out: Path | str | None = None, seed: int = 0, *,
        allow_import: bool = False,
    ) -> None:
        self.strategy, self.scenario, self.seed = strategy, app_scenario(scenario), seed
        validate_cell(self.scenario, allow_import=allow_import)
        self.run: Run | None = None
        self._path, self._keep = folder_for(out)
        self._steps = {name: getattr(strategy, name) for name in STEPS}
        self._held = ExitStack()
        self._stage: Session | None = None
        self._devices: dict[int, int] = {}           # by node
        self._messages: dict[int, Message] = {}      # of the current step, by node
        self._arrays: ArrayRecord | None = None      # last aggregate of the strategy

    def summary(self) -> None:
        self.strategy.summary()

    def start(self, grid: Grid, initial_arrays: ArrayRecord, *args: Any, **options: Any) -> Result:
        """Run ``strategy.start`` with every round simulated in the cell."""
        if "evaluate_fn" in options:
            options["evaluate_fn"] = reporting(
                options["evaluate_fn"], lambda number, found: self.server.replies.reported.server(number, found))
        with self._held, replaced(self.strategy, **{name: getattr(self, name) for name in STEPS}):
            ended = None
            try:
                result = self.strategy.start(grid, initial_arrays, *args, **options)
            except RunOver as over:
                ended, result = str(over), Result()
                result.arrays = initial_arrays if self._arrays is None else self._arrays
                print(f"ended after round {self.server.rounds.version + 1}: {ended}", file=sys.stderr)
            self.server.finish(early=ended is not None)
            assert self._stage is not None
            self._stage.finish(target_reached=None, app=type(self.strategy).__name__, ended=ended)
            self.run = Run(self._path, self._keep)
        return result

    def _configure(
        self, step: str, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid,
    ) -> list[Message]:
        """Return the messages of a step; the strategy sees only nodes of available devices."""
        sent = list(self._steps[step](server_round, arrays, config, PresentNodes(grid, self)))
        self._messages = {message.metadata.dst_node_id: message for message in sent}
        return sent

    configure_train = partialmethod(_configure, "configure_train")
    configure_evaluate = partialmethod(_configure, "configure_evaluate")

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message],
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        arrays, metrics = self._steps["aggregate_train"](server_round, self._played(replies))
        self._arrays = self._arrays if arrays is None else arrays
        return arrays, metrics

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        found: MetricRecord | None = self._steps["aggregate_evaluate"](server_round, self._played(replies))
        return found

    @property
    def server(self) -> AppServer:
        """Server of the cell, created on first use."""
        if self._stage is None:
            self._stage = self._held.enter_context(open_session(
                self.scenario, journal_of(self._path, self.scenario, self.seed, learning=True,
                                          app=type(self.strategy).__name__),
                self.seed, learning=lambda: nullcontext(AppLearning(self.scenario, self.seed))))
            self._server = AppServer(self._stage)
        return self._server

    def device(self, node: int) -> int:
        if node not in self._devices and len(self._devices) == self.scenario.size:
            raise InputError("more-than-devices", "the app's nodes", f"more than {self.scenario.size}",
                             hint="Use fewer nodes, or a scenario with more devices")
        return self._devices.setdefault(node, len(self._devices))

    def _played(self, replies: Iterable[Message]) -> list[Message]:
        """Return the replies after simulation; an error with the reason for each that does not arrive."""
        given = list(replies)
        sent = {place: SentMessage(self._messages[reply.metadata.src_node_id], self.device(reply.metadata.src_node_id),
                            ClientReply(reply, None))
                for place, reply in enumerate(given) if not reply.has_error()}
        if sent:
            self.server.exchange(list(sent.values()), math.inf)
        return [sent[place].reply if place in sent else reply for place, reply in enumerate(given)]


class PresentNodes:
    """Grid that lists only nodes whose devices are available and have energy."""

    def __init__(self, grid: Grid, strategy: InCell) -> None:
        self._grid, self._strategy = grid, strategy
        self._asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def get_node_ids(self) -> Iterator[int]:
        server, nodes = self._strategy.server, sorted(self._grid.get_node_ids())
        there = set(np.flatnonzero(server.cell.available).tolist())
        found = [node for node in nodes if self._strategy.device(node) in there]
        self._asked += 1
        if len(found) < len(nodes) and self._asked > MOST_ASKED:
            raise RunOver(f"the strategy waits for more nodes, and {len(nodes) - len(found)} of {len(nodes)} are off "
                          "or have no energy for a job")
        return iter(found)
