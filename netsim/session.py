"""Session of one run: its folder, environment and cell, for netsim's servers and for Flower apps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import simpy

from netsim.base.errors import InputError, UserCodeError
from netsim.base.platform_info import fewer_collections
from netsim.base.types import State
from netsim.devices.population import device_table, draw_population
from netsim.devices.workload import JobSizes
from netsim.learning.backend import Learning
from netsim.run import Run
from netsim.server.participation import Participation
from netsim.server.radio_cell import CellParts
from netsim.server.round_recorder import RoundRecorder
from netsim.server.selection_runner import SelectionRunner
from netsim.server.server import RunProgress, ServerContext
from netsim.trace.journal import CHECKPOINT, Journal, Stateful, rows_a_part
from netsim.trace.recorder import Recorder
from netsim.trace.run_directory import is_finished

if TYPE_CHECKING:
    from netsim.scenario import Scenario


MOST_CHANGES = 50      # changed scenario keys that run.json lists
Begun = Literal["refuse", "resume", "restart"]      # treatment of a run in the folder


@dataclass(eq=False)
class Session:
    """Session of one run: simulation, cell, learning and journal."""

    env: simpy.Environment
    scenario: Scenario
    rounds: RoundRecorder
    sizes: JobSizes
    learning: Learning
    history: Participation
    recorder: Recorder
    journal: Journal
    components: dict[str, Stateful]
    selector: SelectionRunner | None = None                      # None if another framework selects
    progress: Callable[[RunProgress], None] | None = None        # called after each round

    def context(self) -> ServerContext:
        """Return the context of a server."""
        return ServerContext(
            self.scenario, self.rounds, self.sizes, self.learning, self.history, self.closed, self.selector)

    def advance(self, event: simpy.Event) -> None:
        """Run the simulation until an event; report an error in user code with the round."""
        try:
            self.env.run(until=event)
        except UserCodeError as fault:
            raise fault.in_round(self.rounds.version + 1) from None

    def closed(self, at: RunProgress) -> None:
        """Write a complete round to disk if that is due, and report the progress."""
        if len(self.recorder) >= rows_a_part(self.learning.trains):
            self.journal.commit(at.round, self.recorder, self.components, self.learning)
        if self.progress:
            self.progress(at)

    def finish(self, *, target_reached: bool | None, in_rounds: bool = False, **more: Any) -> None:
        """Write the remaining rows and the summary.

        With ``in_rounds``, the run ends with its last round, and a later wait for devices does not count.
        """
        if len(self.recorder):
            self.journal.commit(self.rounds.version, self.recorder, self.components, self.learning)
        self.journal.finish({**self.summary(target_reached, in_rounds), **more})
        self.learning.remove()

    def summary(self, target_reached: bool | None, in_rounds: bool) -> dict[str, Any]:
        """Return the result, as ``netsim run --json`` prints it."""
        history, path = self.history, self.journal.path
        run = Run(path, checked=True)
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


def how_to_resume(scenario: Scenario, journal: Journal, *, exact: bool) -> Literal["resume", "restart"]:
    """Prepare the run in a journal's folder to be resumed; a finished run is extended if the scenario ends later.

    An extended run has the bytes of a run of that length. With ``exact``, its last checkpoint is that of a longer run,
    if its last round was evaluated as any other; otherwise the run is simulated again from its start.
    """
    if not journal.has_begun or not is_finished(journal.path):
        return "resume"
    stored = Run(journal.path).scenario
    ends, new = stored.end, scenario.end
    later = new.rounds >= ends.rounds and (new.time is None or (ends.time is not None and new.time >= ends.time))
    if new == ends or not later or stored.model_copy(update={"end": new}).digest != scenario.digest:
        return "resume"                          # as it is, or refused as another run
    every, last = scenario.learning.evaluation.every, int(Run(journal.path).info["round"])
    journal.extend(scenario.to_toml())
    return "resume" if exact and last % every == 0 else "restart"


@contextmanager
def open_session(
    scenario: Scenario, journal: Journal, seed: int, *, learning: Callable[[], AbstractContextManager[Learning]],
    selector: SelectionRunner | None = None, begun: Begun = "refuse", env: simpy.Environment | None = None,
) -> Iterator[Session]:
    """Open the session of a run in the folder of a journal.

    ``learning`` is called once the folder is locked. Checkpoints contain the state of ``selector``. ``begun`` is the
    treatment of a run in the folder: raise InputError, continue from its checkpoint, or start again. ``env`` is the
    environment of a new run's cell; by default a new one.
    """
    with ExitStack() as stack:
        stack.callback(journal.close)
        stack.push(lambda kind, *_: journal.abandon() if kind and issubclass(kind, Exception) else None)
        stack.enter_context(fewer_collections())
        resuming = begun == "resume" and journal.has_begun
        stored = _lock(journal, begun)
        learns = stack.enter_context(learning())
        population = draw_population(scenario, seed, learns.samples, learns.flops_per_sample(scenario))
        if not resuming:
            journal.begin(scenario.to_toml(), device_table(scenario, population, learns.device_columns()))
        env = env or simpy.Environment(initial_time=0.0 if stored is None else _clock(journal, stored))
        recorder, history = Recorder(), Participation(len(population))
        sizes = learns.sizes(scenario, population)
        rounds = RoundRecorder(env, recorder, CellParts.of(scenario, seed, population, sizes),
                               learns if learns.trains else None)
        components: dict[str, Stateful] = {
            "rounds": rounds, "cell": rounds.cell, "history": history, "learning": learns,
            **({} if selector is None else {"selection": selector}), "trace": recorder}
        if stored is not None:
            journal.restore(stored, components)
            stack.enter_context(_refuse_damage(journal, rounds))
        yield Session(env, scenario, rounds, sizes, learns, history, recorder, journal, components, selector)


def _clock(journal: Journal, stored: State) -> float:
    """Return the time of a checkpoint; raise InputError unless it continues the stored trace, whose rows are valid."""
    import polars as pl

    run = Run(journal.path)
    rows, ended_s = run.collect(run.scan().select(pl.len(), pl.col("t1").max())).row(0)

    def read() -> float:
        (clock,), counts = stored["cell/clock"].tolist(), stored["trace/counts"].tolist()
        if counts != [rows, journal.round] or not ended_s <= clock < math.inf:
            raise ValueError(f"{counts} rows and rounds at {clock} s, after {[rows, journal.round]} at {ended_s} s")
        return float(clock)

    return journal.checked(read)


def _lock(journal: Journal, begun: Begun) -> State | None:
    """Lock the folder of a run; return the state of the checkpoint to continue from, None to start."""
    if not journal.has_begun or begun == "refuse":
        journal.claim()
        return None
    if begun == "resume":
        return journal.resume()
    journal.restart()
    return None


@contextmanager
def _refuse_damage(journal: Journal, rounds: RoundRecorder) -> Iterator[None]:
    """Raise InputError for an error in the first round after a checkpoint.

    A checkpoint with a valid checksum may hold a state that no run can reach.
    """
    version = rounds.version
    try:
        yield
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, InputError) or rounds.version > version:
            raise
        raise InputError(
            "damaged", str(journal.path / CHECKPOINT), f"a state that this run cannot continue from ({error!r})",
            hint="Start a new run with another --out; if netsim wrote this file, report a bug") from error
