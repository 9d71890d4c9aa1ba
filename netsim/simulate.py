"""One run of a scenario: puts population, world, cell, server and learning together."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Any

import simpy

from netsim.cell.cell_parts import CellParts
from netsim.cell.radio_cell import RadioCell
from netsim.fleet.device_table import device_table
from netsim.fleet.population import draw_population
from netsim.learning.none import NoLearning
from netsim.learning.protocol import Learning
from netsim.prepare import check_layers, prepare
from netsim.run import Run
from netsim.selection import Selection
from netsim.server import SERVERS
from netsim.server.history import History
from netsim.server.selector import Selector
from netsim.server.server import RunProgress, Server
from netsim.trace.journal import Journal, Stateful, rows_a_part
from netsim.trace.recorder import Recorder

if TYPE_CHECKING:
    from netsim.scenario import Scenario


def simulate(
    scenario: Scenario, out: Path | str | None = None, seed: int = 0, *,
    learning: bool = True, workers: int | None = None, resume: bool = False,
    progress: Callable[[RunProgress], None] | None = None, first_rounds: Path | None = None,
    allow_import: bool = False,
) -> Run:
    """Simulate a scenario and return its run.

    ``out`` is the run's folder (without one, the run lives as long as the object returned). ``workers`` is how many
    processes train devices (default: one for each core); it changes nothing but the speed. ``resume`` goes on with
    the run that lies in ``out``, if one does. ``learning=False`` plays the rounds without training. ``first_rounds``
    is a folder that many runs may share: those that begin alike train their first round once. ``allow_import`` lets
    the scenario name code of packages that are not made for netsim.
    """
    learning = learning and scenario.trains
    selection = prepare(scenario, learning=learning, allow_import=allow_import)
    keep = TemporaryDirectory(prefix="netsim-") if out is None else None
    path = Path(keep.name if keep else str(out))
    identity = {"scenario": scenario.name, "scenario_sha256": scenario.digest, "seed": seed, "learning": learning}
    journal = Journal(path, identity)
    with ExitStack() as stack:
        stack.callback(journal.close)
        resuming = resume and journal.has_begun
        stored = journal.resume() if resuming else None
        if not resuming:
            journal.claim()
        learns: Learning = stack.enter_context(
            open_learning(scenario, seed, selection, path, workers, first_rounds) if learning
            else nullcontext(NoLearning.of(scenario, seed)))
        population = draw_population(scenario, seed, learns.samples)
        if not resuming:
            journal.begin(scenario.to_toml(), device_table(scenario, population, learns.device_columns()))
        env = simpy.Environment(initial_time=0.0 if stored is None else journal.checked(
            lambda: float(stored["cell/clock"][0])))
        recorder, history = Recorder(), History(len(population))
        cell = CellParts.of(scenario, seed, population, learns.bits).open(env, recorder)
        selector = Selector(scenario.selection.method, selection, seed)
        rooms: dict[str, Stateful] = {
            "cell": cell, "history": history, "learning": learns, "selection": selector,
            "trace": recorder}
        if stored is not None:
            journal.restore(stored, rooms)

        def closed(at: RunProgress) -> None:
            if len(recorder) >= rows_a_part(learns.trains):
                journal.commit(at.round, recorder, rooms, learns)
            if progress:
                progress(at)

        kind, options = (scenario.server.kind, scenario.server.options) if scenario.server else ("synchronous", {})
        server: Server = SERVERS.make(kind, options)(scenario, selector, learns, history, closed)
        if not server.ended(cell):
            learns.begin(len(population), cell.version)
        env.run(until=env.process(server.run(cell)))
        if len(recorder):
            journal.commit(cell.version, recorder, rooms, learns)
        journal.finish(summary(path, journal, cell, server))
        learns.remove()
    return Run(path, keep)


@contextmanager
def open_learning(
    scenario: Scenario, seed: int, selection: Selection, folder: Path, workers: int | None, first_rounds: Path | None,
) -> Iterator[Learning]:
    """Torch with its workers; what the scenario names has been permitted."""
    from netsim.learning.learner import open_learner
    from netsim.learning.torch_learning import TorchLearning

    with open_learner(scenario, seed, workers, first_rounds, allow_import=True) as learner:
        check_layers(selection, learner.layers)     # now, and not when the first round is over
        yield TorchLearning(scenario, learner, folder, keeps_models="weights" in selection.needs)


def summary(path: Path, journal: Journal, cell: RadioCell, server: Server) -> dict[str, Any]:
    """The result, as ``netsim run --json`` prints it."""
    history, run = server.history, Run(path)
    evaluated = [accuracy for accuracy in history.accuracy if not math.isnan(accuracy)]
    return {
        "run_dir": str(path),
        "rounds": cell.version,
        "simulated_s": cell.now,
        "energy_j": history.energy_j,
        "accuracy": evaluated[-1] if evaluated else None,
        "target_reached": server.target_reached if server.learning.trains else None,
        "round_s": run.rounds["round_s"].to_list(),
        "breakdown": {part: math.fsum(run.rounds[f"{part}_s"]) for part in run.parts},
        "dropped": history.dropped,
        "trace_sha256": journal.trace_sha256,
    }


class _Callable(ModuleType):
    """`netsim.simulate` names this module and the function in it: whichever is imported first, it can be called."""

    __call__ = staticmethod(simulate)
    __signature__ = signature(simulate)


sys.modules[__name__].__class__ = _Callable
