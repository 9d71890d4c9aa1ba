"""Simulation of a scenario: its server, selection method and learning in a simulated cell."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.base.errors import InputError, UserCodeError, WorkerError
from netsim.base.files import folder_for
from netsim.learning.backend import Learning, NoLearning
from netsim.run import Run
from netsim.selection import Selection
from netsim.server import SERVERS, strategy_of
from netsim.server.selection_runner import SelectionRunner
from netsim.server.server import RunProgress, Server
from netsim.session import Session, how_to_resume, journal_of, open_session
from netsim.validation import check_arguments, check_layers, validate, with_own

if TYPE_CHECKING:
    from netsim.learning.training_cache import TrainingCache
    from netsim.scenario import Scenario


def simulate(
    scenario: Scenario | Mapping[str, Any] | Path | str, out: Path | str | None = None, seed: int = 0, *,
    learning: bool = True, workers: int | None = None, cluster: str | None = None, resume: bool = False,
    progress: Callable[[RunProgress], None] | None = None, shared: TrainingCache | None = None,
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
    cluster : str, optional
        Address of a Dask scheduler, such as ``"tcp://host:8786"``, whose workers train and evaluate instead. It has no
        effect on the results if the processors are alike.
    resume : bool
        Continue the run in ``out`` from its last checkpoint, if there is one. A finished run is extended if the
        scenario ends later (``end.rounds``, ``end.time``).
    progress : callable, optional
        Called with a ``RunProgress`` after each round: round, rounds, time_s, energy_j, accuracy, target.
    shared : TrainingCache, optional
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
    check_arguments(own, seed=seed, workers=workers, resume=resume, out=out, learning=learning, progress=progress,
                    cluster=cluster)
    with with_own(scenario, own) as whole:
        trains = learning and whole.trains
        selection = validate(whole, learning=trains, allow_import=allow_import)
        if whole.flower is not None:
            raise InputError("no-effect", "flower", hint="Remove the table, or run a Flower app with `netsim flower`")
        selector = SelectionRunner(whole.selection.method, selection, seed)
        path, keep = folder_for(out)

        def learns() -> AbstractContextManager[Learning]:
            return (open_learning(whole, seed, selection, path, workers, shared, cluster) if trains
                    else nullcontext(NoLearning.of(whole, seed)))

        journal = journal_of(path, whole, seed, learning=trains)
        exact = trains and bool(strategy_of(whole).waits) and "weights" not in selection.needs
        begun = how_to_resume(whole, journal, exact=exact) if resume else "refuse"
        with open_session(whole, journal, seed, learning=learns, selector=selector, begun=begun) as session:
            session.progress = progress
            serve(session)
        return Run(path, keep)


def serve(session: Session) -> None:
    """Run the server of the scenario to the end of the run."""
    scenario, strategy = session.scenario, strategy_of(session.scenario)
    server: Server = strategy.loop(session.context(), strategy)
    if not server.ended():
        session.learning.begin(scenario.size, session.rounds.version)
    kind = scenario.server.kind if scenario.server else "synchronous"
    session.advance(session.env.process(server.run() if kind in SERVERS else watched(server, kind)))
    session.finish(target_reached=server.target_reached if session.learning.trains else None, in_rounds=True)


def watched(server: Server, kind: str) -> Generator[Any, Any, None]:
    """Run a user's own server; report an error in it with the simulated time and its line."""
    try:
        yield from server.run()
    except (InputError, WorkerError):
        raise
    except Exception as error:
        raise UserCodeError.of(f"server {kind}", error, at=server.cell.now) from None


@contextmanager
def open_learning(
    scenario: Scenario, seed: int, selection: Selection, folder: Path, workers: int | None,
    shared: TrainingCache | None,
    cluster: str | None = None,
) -> Iterator[Learning]:
    """Open torch training with its workers; imports of the scenario must have been permitted."""
    from netsim.learning.local_training import open_trainer
    from netsim.learning.torch_backend import TorchBackend

    with open_trainer(scenario, seed, workers, shared, cluster=cluster, allow_import=True) as learner:
        check_layers(selection, learner.layers)     # before the first round
        yield TorchBackend(scenario, learner, folder, keeps_models="weights" in selection.needs)
