"""One run of a scenario: puts population, world, cell, server and learning together."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Any

import simpy

from netsim.allocation.waves import planner_of
from netsim.cell.disciplines import DISCIPLINES
from netsim.cell.radio import RateLaw
from netsim.cell.radio_cell import RadioCell
from netsim.fleet.device_table import device_table
from netsim.fleet.population import draw_population
from netsim.fleet.work import RoundProblems
from netsim.learning.none import NoLearning
from netsim.learning.protocol import Learning
from netsim.prepare import as_scenario, check_arguments, check_layers, prepare, with_own
from netsim.run import Run
from netsim.selection import Selection
from netsim.server import SERVERS
from netsim.server.history import History
from netsim.server.selector import Selector
from netsim.server.server import RunProgress, Server
from netsim.trace.journal import Journal, Stateful, rows_a_part
from netsim.trace.recorder import Recorder
from netsim.trace.stored_run import PARTS
from netsim.world import CHANNELS
from netsim.world.faults import Faults

if TYPE_CHECKING:
    from netsim.learning.shared import InCommon
    from netsim.scenario import Scenario


def simulate(
    scenario: Scenario | Mapping[str, Any] | Path | str, out: Path | str | None = None, seed: int = 0, *,
    learning: bool = True, workers: int | None = None, resume: bool = False,
    progress: Callable[[RunProgress], None] | None = None, shared: InCommon | None = None,
    allow_import: bool = False, **own: Any,
) -> Run:
    """Simulate a scenario and return its run.

    ``scenario`` may be the name or the path of one, or a dict of its tables. ``out`` is the run's folder (without one,
    the run lives as long as the object returned). ``workers`` is how many processes train devices (default: one for
    each core); it changes nothing but the speed. ``resume`` goes on with the run that lies in ``out``, if one does.
    ``learning=False`` plays the rounds without training. ``shared`` is a folder for many runs: what they have in common
    is trained once. ``allow_import`` lets the scenario name code of packages that are not made for netsim. ``own`` are
    functions and classes of this Python session in the place of what the scenario names: ``allocation``, ``selection``,
    ``model``, ``dataset``, ``channel``; a run with such cannot be resumed.
    """
    check_arguments(own, seed=seed, workers=workers, resume=resume, out=out)
    with with_own(as_scenario(scenario), own) as whole:
        return _played(whole, out, seed, learning=learning, workers=workers, resume=resume, progress=progress,
                       shared=shared, allow_import=allow_import)


def _played(
    scenario: Scenario, out: Path | str | None, seed: int, *, learning: bool, workers: int | None, resume: bool,
    progress: Callable[[RunProgress], None] | None, shared: InCommon | None, allow_import: bool,
) -> Run:
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
            open_learning(scenario, seed, selection, path, workers, shared) if learning
            else nullcontext(NoLearning(scenario, seed)))
        population = draw_population(scenario, seed, learns.samples)
        if not resuming:
            journal.begin(scenario.to_toml(), device_table(scenario, population, learns.device_columns()))
        env = simpy.Environment(initial_time=0.0 if stored is None else journal.checked(
            lambda: float(stored["cell/clock"][0])))
        recorder, history = Recorder(), History(len(population))
        channel = CHANNELS.make(scenario.cell.channel or "described", {})(scenario, population, seed)
        discipline = DISCIPLINES.make(scenario.allocation.sharing or "planned", {})
        cell = RadioCell(
            env, population, channel, RoundProblems(scenario, population, bits=learns.bits), discipline, recorder,
            planner_of(scenario.allocation.method, scenario.allocation.options, scenario.rounds.deadline),
            RateLaw(scenario.cell.efficiency, scenario.cell.rate_cap, scenario.rounds.over_budget == "drop"),
            scenario.allocation.channel or "now", Faults.of(scenario, seed))
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
    scenario: Scenario, seed: int, selection: Selection, folder: Path, workers: int | None, shared: InCommon | None,
) -> Iterator[Learning]:
    """Torch with its workers; what the scenario names has been permitted."""
    from netsim.learning.learner import open_learner
    from netsim.learning.torch_learning import TorchLearning

    with open_learner(scenario, seed, workers, shared, allow_import=True) as learner:
        check_layers(selection, learner.layers)     # now, and not when the first round is over
        yield TorchLearning(scenario, learner, folder, keeps_models="weights" in selection.needs)


def summary(path: Path, journal: Journal, cell: RadioCell, server: Server) -> dict[str, Any]:
    """The result, as ``netsim run --json`` prints it."""
    history, rounds = server.history, Run(path).rounds
    evaluated = [accuracy for accuracy in history.accuracy if not math.isnan(accuracy)]
    return {
        "run_dir": str(path),
        "rounds": cell.version,
        "simulated_s": cell.now,
        "energy_j": history.energy_j,
        "accuracy": evaluated[-1] if evaluated else None,
        "target_reached": server.target_reached if server.learning.trains else None,
        "round_s": rounds["round_s"].to_list(),
        "breakdown": {part: math.fsum(rounds[f"{part}_s"]) for part in PARTS},
        "dropped": history.dropped,
        "trace_sha256": journal.trace_sha256,
    }


class _Callable(ModuleType):
    """`netsim.simulate` names this module and the function in it: whichever is imported first, it can be called."""

    __call__ = staticmethod(simulate)
    __signature__ = signature(simulate)


sys.modules[__name__].__class__ = _Callable
