"""The folder, world and cell of one run, for a server of ours or for the app of another framework."""

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


MOST_CHANGES = 50      # that a run remembers


@dataclass(eq=False)
class Stage:
    """What a run is played on."""

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
        """What a server works with."""
        return ServerContext(self.scenario, self.rounds, self.sizes, self.learning, self.history, self.closed, selector)

    def advance(self, event: simpy.Event) -> None:
        """Let simulated time pass until something has happened; report a fault of the user's code with the round."""
        try:
            self.env.run(until=event)
        except YourCodeError as fault:
            raise fault.in_round(self.rounds.version + 1) from None

    def closed(self, at: RunProgress) -> None:
        """A round is complete: write it down if that is due, and say how far the run is."""
        if len(self.recorder) >= rows_a_part(self.learning.trains):
            self.journal.commit(at.round, self.recorder, self.rooms, self.learning)
        if self.progress:
            self.progress(at)

    def finish(self, *, target_reached: bool | None, in_rounds: bool = False, **more: Any) -> None:
        """Write the rest down, and the result; ``in_rounds``: what came after the last round was waited in vain."""
        if len(self.recorder):
            self.journal.commit(self.rounds.version, self.recorder, self.rooms, self.learning)
        self.journal.finish({**self.summary(target_reached, in_rounds), **more})
        self.learning.remove()

    def summary(self, target_reached: bool | None, in_rounds: bool) -> dict[str, Any]:
        """The result, as ``netsim run --json`` prints it."""
        history, path = self.history, self.journal.path
        run = Run(path)
        run.number_of_devices = len(self.sizes.cycles)       # known here: a table of a million rows is not read for it
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
    """The journal of a run, with what makes it this run and no other, and what people know it by."""
    changed = scenario.said.changed[:MOST_CHANGES]
    return Journal(path, {"scenario": scenario.name, **({"changed": changed} if changed else {}),
                          "scenario_sha256": scenario.digest, "seed": seed, **more})


@contextmanager
def open_stage(
    scenario: Scenario, journal: Journal, seed: int, *, learning: Callable[[], AbstractContextManager[Learning]],
    selector: Selector | None = None, begun: Literal["refuse", "resume", "restart"] = "refuse",
    env: simpy.Environment | None = None,
) -> Iterator[Stage]:
    """A stage in the folder of a journal; ``learning`` is opened once the folder is ours.

    ``begun`` says what becomes of a run that lies there: it is an error, or it goes on from its last checkpoint, or it
    begins again. ``env`` is the environment of a new run's cell, where it is not a cell of its own.
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
            # a checkpoint with a right checksum may still hold a state that no run can reach
            if isinstance(error, InputError) or rounds.version > version:
                raise
            raise InputError(
                "damaged", str(journal.path / CHECKPOINT), f"a state that this run cannot go on from ({error!r})",
                hint="Begin again with another --out; if netsim wrote it, this is a fault of netsim") from error
