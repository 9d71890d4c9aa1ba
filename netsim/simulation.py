"""Simulation of a scenario: its server, selection method and learning in a simulated cell."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.base.errors import InputError, WorkerError, YourCodeError
from netsim.base.files import folder_for
from netsim.learning.protocol import Learning, NoLearning
from netsim.prepare import check_arguments, check_layers, prepare, with_own
from netsim.run import Run
from netsim.selection import Selection
from netsim.server import SERVERS, strategy_of
from netsim.server.selector import Selector
from netsim.server.server import RunProgress, Server
from netsim.stage import Stage, journal_of, open_stage

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

    Parameters
    ----------
    scenario : Scenario, str, Path or mapping
        A scenario, its name, the path of its file, or a dict of its tables.
    out : str or Path, optional
        Folder of the run. By default the files are deleted with the returned object.
    seed : int
        Seed of all random draws.
    learning : bool
        False simulates the rounds without training models.
    workers : int, optional
        Number of processes that train models; by default one per core. It has no effect on the results.
    resume : bool
        Continue the run in ``out`` from its last checkpoint, if there is one.
    progress : callable, optional
        Called with a ``RunProgress`` after each round: round, rounds, time_s, energy_j, accuracy, target.
    shared : InCommon, optional
        Cache of training results that several runs have in common.
    allow_import : bool
        Allow the scenario to name code of packages that are not made for netsim.
    **own : callable
        Functions and classes of this Python session that replace those the scenario names: ``allocation``,
        ``selection``, ``model``, ``dataset``, ``channel``, ``link``. A run with such objects cannot be resumed.

    Returns
    -------
    Run
        The finished run, with its tables and analyses.

    Raises
    ------
    InputError
        The scenario or an argument is not valid, or ``out`` holds other files.

    Examples
    --------
    >>> from netsim import simulate
    >>> simulate("tiny", seed=1, learning=False).rounds.height
    3
    """
    check_arguments(own, seed=seed, workers=workers, resume=resume, out=out, learning=learning, progress=progress)
    with with_own(scenario, own) as whole:
        trains = learning and whole.trains
        selection = prepare(whole, learning=trains, allow_import=allow_import)
        if whole.flower is not None:
            raise InputError("no-effect", "flower", hint="Remove the table, or run a Flower app with `netsim flower`")
        selector = Selector(whole.selection.method, selection, seed)
        path, keep = folder_for(out)

        def learns() -> AbstractContextManager[Learning]:
            return (open_learning(whole, seed, selection, path, workers, shared) if trains
                    else nullcontext(NoLearning.of(whole, seed)))

        with open_stage(whole, journal_of(path, whole, seed, learning=trains), seed, learning=learns,
                        selector=selector, begun="resume" if resume else "refuse") as stage:
            stage.progress = progress
            serve(stage, selector)
        return Run(path, keep)


def serve(stage: Stage, selector: Selector) -> None:
    """Run the server of the scenario to the end of the run."""
    scenario, strategy = stage.scenario, strategy_of(stage.scenario)
    server: Server = strategy.loop(stage.context(selector), strategy)
    if not server.ended():
        stage.learning.begin(scenario.size, stage.rounds.version)
    kind = scenario.server.kind if scenario.server else "synchronous"
    stage.advance(stage.env.process(server.run() if kind in SERVERS else watched(server, kind)))
    stage.finish(target_reached=server.target_reached if stage.learning.trains else None, in_rounds=True)


def watched(server: Server, kind: str) -> Generator[Any, Any, None]:
    """Run a user's own server; report an error in it with the simulated time and its line."""
    try:
        yield from server.run()
    except (InputError, WorkerError):
        raise
    except Exception as error:
        raise YourCodeError.of(f"server {kind}", error, at=server.cell.now) from None


@contextmanager
def open_learning(
    scenario: Scenario, seed: int, selection: Selection, folder: Path, workers: int | None, shared: InCommon | None,
) -> Iterator[Learning]:
    """Open torch training with its worker processes; imports of the scenario must have been permitted."""
    from netsim.learning.learner import open_learner
    from netsim.learning.torch_learning import TorchLearning

    with open_learner(scenario, seed, workers, shared, allow_import=True) as learner:
        check_layers(selection, learner.layers)     # before the first round
        yield TorchLearning(scenario, learner, folder, keeps_models="weights" in selection.needs)
