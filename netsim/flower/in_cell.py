"""The other way round: a strategy that plays every round in the cell, while the app stays in Flower's own engine.

Flower's engine trains, on its own workers and GPUs; netsim plans and plays what came back, gives it times, and hands
on to the strategy only what arrives.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, nullcontext
from functools import partialmethod
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from netsim.base.errors import InputError
from netsim.base.files import folder_for
from netsim.flower.app_server import AppServer, RunOver
from netsim.flower.cell_alone import AppLearning, as_the_app_sees_it
from netsim.flower.library import replaced
from netsim.flower.messages import ClientAnswer, Sent
from netsim.flower.surroundings import reporting
from netsim.prepare import prepare_cell
from netsim.run import Run
from netsim.scenario import Scenario
from netsim.stage import Stage, journal_of, open_stage

STEPS = ("configure_train", "aggregate_train", "configure_evaluate", "aggregate_evaluate")
MOST_ASKED = 3             # times that a strategy asks who is there before it waits for more


class InCell(Strategy):  # type: ignore[misc]
    """A strategy in a scenario's cell: ``InCell(FedAvg(), load_scenario("quickstart")).start(grid, …)``.

    The nodes stand for the devices, in the order of their numbers. After ``start``, ``run`` is the simulated run, which
    lies in ``out`` (without that, it lives as long as this object).
    """

    def __init__(
        self, strategy: Strategy, scenario: Scenario, out: Path | str | None = None, seed: int = 0, *,
        allow_import: bool = False,
    ) -> None:
        self.strategy, self.scenario, self.seed = strategy, as_the_app_sees_it(scenario), seed
        prepare_cell(self.scenario, allow_import=allow_import)
        self.run: Run | None = None
        self._path, self._keep = folder_for(out)
        self._steps = {name: getattr(strategy, name) for name in STEPS}
        self._held = ExitStack()
        self._stage: Stage | None = None
        self._devices: dict[int, int] = {}           # by node
        self._messages: dict[int, Message] = {}      # of the present step, by node
        self._arrays: ArrayRecord | None = None      # the last that the strategy has made

    def summary(self) -> None:
        self.strategy.summary()

    def start(self, grid: Grid, initial_arrays: ArrayRecord, *args: Any, **options: Any) -> Result:
        """The strategy's own, with every round played in the cell."""
        if "evaluate_fn" in options:
            options["evaluate_fn"] = reporting(
                options["evaluate_fn"], lambda number, found: self.server.reported.server(number, found))
        with self._held, replaced(self.strategy, **{name: getattr(self, name) for name in STEPS}):
            ended = None
            try:
                result = self.strategy.start(grid, initial_arrays, *args, **options)
            except RunOver as over:
                ended, result = str(over), Result()
                result.arrays = initial_arrays if self._arrays is None else self._arrays
                print(f"ended after round {self.server.rounds.version + 1}: {ended}", file=sys.stderr)
            self.server.end_round(last=True)
            assert self._stage is not None
            self._stage.finish(target_reached=None, app=type(self.strategy).__name__, ended=ended)
            self.run = Run(self._path, self._keep)
        return result

    def _configure(
        self, step: str, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid,
    ) -> list[Message]:
        """The messages of a step of the strategy, which sees only the nodes of available devices."""
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
        """The cell, put up when it is first needed."""
        if self._stage is None:
            self._stage = self._held.enter_context(open_stage(
                self.scenario, journal_of(self._path, self.scenario, self.seed, learning=True,
                                          app=type(self.strategy).__name__),
                self.seed, learning=lambda: nullcontext(AppLearning(self.scenario, self.seed))))
            self._server = AppServer(self._stage)
        return self._server

    def device(self, node: int) -> int:
        """The device that a node stands for."""
        if node not in self._devices and len(self._devices) == self.scenario.size:
            raise InputError("more-than-devices", "the app's nodes", f"more than {self.scenario.size}",
                             hint="Take fewer nodes, or give the scenario more devices")
        return self._devices.setdefault(node, len(self._devices))

    def _played(self, replies: Iterable[Message]) -> list[Message]:
        """The replies as they come out of the cell; in the place of those that do not, errors with the reason."""
        given = list(replies)
        sent = {place: Sent(self._messages[reply.metadata.src_node_id], self.device(reply.metadata.src_node_id),
                            ClientAnswer(reply, None))
                for place, reply in enumerate(given) if not reply.has_error()}
        if sent:
            self.server.exchange(list(sent.values()), math.inf)
        return [sent[place].reply if place in sent else reply for place, reply in enumerate(given)]


class PresentNodes:
    """A grid on which only those nodes are seen whose devices are there and have energy."""

    def __init__(self, grid: Grid, strategy: InCell) -> None:
        self._grid, self._strategy = grid, strategy
        self._asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def get_node_ids(self) -> Iterator[int]:
        server, nodes = self._strategy.server, sorted(self._grid.get_node_ids())
        there = set(server.available().tolist())
        found = [node for node in nodes if self._strategy.device(node) in there]
        self._asked += 1
        if len(found) < len(nodes) and self._asked > MOST_ASKED:
            raise RunOver(f"the strategy waits for more nodes, and {len(nodes) - len(found)} of {len(nodes)} are off "
                          "or have no energy for a job")
        return iter(found)
