"""Session of one run: its folder, environment and cell, for netsim's servers and for Flower apps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import simpy

from netsim.base.errors import InputError, YourCodeError
from netsim.base.machine import fewer_collections
from netsim.fleet.population import device_table, draw_population
from netsim.fleet.work import JobSizes
from netsim.learning.protocol import Learning
from netsim.run import Run
from netsim.server.history import History
from netsim.server.radio_cell import CellParts
from netsim.server.rounds import RoundRecorder
from netsim.server.selector import Selector
from netsim.server.server import RunProgress, ServerContext
from netsim.trace.journal import CHECKPOINT, Journal, Stateful, rows_a_part
from netsim.trace.recorder import Recorder

if TYPE_CHECKING:
    from netsim.scenario import Scenario


MOST_CHANGES = 50      # changed scenario keys that run.json lists


@dataclass(eq=False)
class Stage:
    """Session of one run: simulation, cell, learning and journal."""

    env: simpy.Environment
    scenario: Scenario
    rounds: RoundRecorder
    sizes: JobSizes
    learning: Learning
    history: History
    recorder: Recorder
    journal: Journal
    rooms: dict[str, Stateful]
    progress: Callable[[RunProgress], None] | None = None        # called after each round

    def context(self, selector: Selector | None = None) -> ServerContext:
        """Return the context of a server."""
        return ServerContext(self.scenario, self.rounds, self.sizes, self.learning, self.history, self.closed, selector)

    def advance(self, event: simpy.Event) -> None:
        """Run the simulation until an event; report an error in user code with the round."""
        try:
            self.env.run(until=event)
        except YourCodeError as fault:
            raise fault.in_round(self.rounds.version + 1) from None

    def closed(self, at: RunProgress) -> None:
        """Write a complete round to disk if that is due, and report the progress."""
        if len(self.recorder) >= rows_a_part(self.learning.trains):
            self.journal.commit(at.round, self.recorder, self.rooms, self.learning)
        if self.progress:
            self.progress(at)

    def finish(self, *, target_reached: bool | None, in_rounds: bool = False, **more: Any) -> None:
        """Write the remaining rows and the summary.

        With ``in_rounds``, the run ends with its last round, and a later wait for devices does not count.
        """
        if len(self.recorder):
            self.journal.commit(self.rounds.version, self.recorder, self.rooms, self.learning)
        self.journal.finish({**self.summary(target_reached, in_rounds), **more})
        self.learning.remove()

    def summary(self, target_reached: bool | None, in_rounds: bool) -> dict[str, Any]:
        """Return the result, as ``netsim run --json`` prints it."""
        history, path = self.history, self.journal.path
        run = Run(path)
        run.number_of_devices = len(self.sizes.cycles)       # avoids reading the table of devices
        evaluated = [accuracy for accuracy in history.accuracy if not math.isnan(accuracy)]
        return {
            "run_dir": str(path),
            "rounds": self.rounds.version,
            "simulated_s": float(run.rounds["t1"][-1]) if in_rounds and self.rounds.version else self.rounds.cell.now,
            "energy_j": history.energy_j,
            "accuracy": evaluated[-1] if evaluated else None,
            "target_reached": target_reached,
            "round_s": run.rounds["round_s"].to_list(),
            "breakdown": {part: math.fsum(run.rounds[f"{part}_s"]) for part in run.parts},
            "dropped": history.dropped,
            "trace_sha256": self.journal.trace_sha256,
        }


def journal_of(path: Path, scenario: Scenario, seed: int, **more: Any) -> Journal:
    """Return the journal of a run, with the identity of the run: scenario, digest, seed and ``more``."""
    changed = scenario.said.changed[:MOST_CHANGES]
    return Journal(path, {"scenario": scenario.name, **({"changed": changed} if changed else {}),
                          "scenario_sha256": scenario.digest, "seed": seed, **more})


@contextmanager
def open_stage(
    scenario: Scenario, journal: Journal, seed: int, *, learning: Callable[[], AbstractContextManager[Learning]],
    selector: Selector | None = None, begun: Literal["refuse", "resume", "restart"] = "refuse",
    env: simpy.Environment | None = None,
) -> Iterator[Stage]:
    """Open the session of a run in the folder of a journal.

    Parameters
    ----------
    scenario : Scenario
        The scenario.
    journal : Journal
        Journal of the run's folder.
    seed : int
        Seed of all random draws.
    learning : callable
        Returns a context manager of the learning; called once the folder is locked.
    selector : Selector, optional
        The selection method, whose state checkpoints contain.
    begun : {"refuse", "resume", "restart"}
        Treatment of a run in the folder: raise InputError, continue from its checkpoint, or start again.
    env : simpy.Environment, optional
        Environment of a new run's cell; by default a new one.
    """
    with ExitStack() as stack:
        stack.callback(journal.close)
        stack.enter_context(fewer_collections())
        resuming = begun == "resume" and journal.has_begun
        stored = journal.resume() if resuming else None
        if begun == "restart" and journal.has_begun:
            journal.restart()
        elif not resuming:
            journal.claim()
        learns = stack.enter_context(learning())
        population = draw_population(scenario, seed, learns.samples)
        if not resuming:
            journal.begin(scenario.to_toml(), device_table(scenario, population, learns.device_columns()))
        env = env or simpy.Environment(initial_time=0.0 if stored is None else journal.checked(
            lambda: float(stored["cell/clock"][0])))
        recorder, history = Recorder(), History(len(population))
        sizes = learns.sizes(scenario, population)
        rounds = RoundRecorder(env, recorder, CellParts.of(scenario, seed, population, sizes),
                               learns if learns.trains else None)
        rooms: dict[str, Stateful] = {
            "rounds": rounds, "cell": rounds.cell, "history": history, "learning": learns,
            **({} if selector is None else {"selection": selector}), "trace": recorder}
        stage = Stage(env, scenario, rounds, sizes, learns, history, recorder, journal, rooms)
        if stored is None:
            yield stage
            return
        journal.restore(stored, rooms)
        version = rounds.version
        try:
            yield stage
        except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
            # a checkpoint with a valid checksum may hold a state that no run can reach
            if isinstance(error, InputError) or rounds.version > version:
                raise
            raise InputError(
                "damaged", str(journal.path / CHECKPOINT), f"a state that this run cannot continue from ({error!r})",
                hint="Start a new run with another --out; if netsim wrote this file, report a bug") from error
