"""Run of a Flower app in a cell."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stdout
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from flwr.app import Context, RecordDict

from netsim.base.errors import InputError
from netsim.base.files import folder_for, packed, replace_file
from netsim.base.streams import stream
from netsim.flower.app_folder import FlowerApp, importable, load_component, read_app, told_of
from netsim.flower.app_server import AppServer, RunOver
from netsim.flower.cell_alone import AppLearning, as_the_app_sees_it
from netsim.flower.clients import Clients, KeptAnswers
from netsim.flower.grid import AtFault, CellGrid
from netsim.flower.library import RUN_ID, SUPERLINK, identify
from netsim.flower.old_api import old_servers
from netsim.flower.surroundings import seed_generators, simulated_time, watched
from netsim.learning.pool import Workers, cores
from netsim.prepare import prepare_cell
from netsim.run import Run
from netsim.scenario import Scenario
from netsim.server.server import RunProgress
from netsim.stage import journal_of, open_stage
from netsim.trace.run_directory import is_finished

MODEL = "model.npz"


def run_app(
    app: Path | str, scenario: Scenario, out: Path | str | None = None, seed: int = 0, *,
    workers: int | None = None, run_config: Sequence[str] = (), resume: bool = False,
    progress: Callable[[RunProgress], None] | None = None, allow_import: bool = False,
) -> Run:
    """Run a Flower app in a scenario's cell.

    Parameters
    ----------
    app : path
        Folder of the app; its code is run.
    scenario : Scenario
        Cell and devices.
    out : path, optional
        Folder of the run; without it, the run is deleted with the returned object.
    seed : int
        Seed of the run.
    workers : int, optional
        Processes that run ClientApps, by default one per core; without effect on results.
    run_config : sequence of str
        Changes of the app's configuration, each as KEY=VALUE.
    resume : bool
        Resume the run in ``out``, if there is one: the ServerApp starts again and receives the stored replies.
    progress : callable, optional
        Called with a ``RunProgress`` after each round.
    allow_import : bool
        Permit code of packages that were not made for netsim.

    Returns
    -------
    Run
        The simulated run; ``model.npz`` in its folder is the last model of the strategy.

    Raises
    ------
    InputError
        If the app or the scenario is invalid, or the app raises an exception.
    """
    found_app = read_app(Path(app), run_config)
    scenario = as_the_app_sees_it(scenario)
    prepare_cell(scenario, allow_import=allow_import)
    path, keep = folder_for(out)
    journal = journal_of(path, scenario, seed, learning=True, app=found_app.name, app_sha256=found_app.digest)
    if resume and is_finished(path):
        journal.refuse_another()
        return Run(path)
    with importable(found_app), ExitStack() as stack:
        stack.enter_context(quiet())
        server = load_component(found_app, "serverapp")
        load_component(found_app, "clientapp")                # report import errors now
        if found_app.wants_torch:
            import_module("torch")                       # so that it is seeded even if the app imports it late
        kept = KeptAnswers(path)
        clients = Clients(found_app, scenario.size, seed, stack.enter_context(Workers(workers or cores())), kept)
        stage = stack.enter_context(open_stage(
            scenario, journal, seed, learning=lambda: nullcontext(AppLearning(scenario, seed)),
            begun="restart" if resume else "refuse"))
        stage.progress = progress
        ended, arrays = play(found_app, server, AppServer(stage, clients), seed)
        if arrays is not None:      # last model of the strategy
            model = {name: array.numpy() for name, array in arrays.items()}
            replace_file(path / MODEL, packed(lambda file: np.savez(file, **model)))
        stage.finish(target_reached=None, app=found_app.name, ended=ended)
        kept.remove()
    return Run(path, keep)


def play(app: FlowerApp, server_app: Any, server: AppServer, seed: int) -> tuple[str | None, Any]:
    """Run the ServerApp; return the reason of an early end, if any, and the last model of its strategy."""
    grid, arrays = CellGrid(server), list[Any]()
    context = Context(run_id=RUN_ID, node_id=SUPERLINK, node_config={}, state=RecordDict(), run_config=dict(app.config))

    def of_the_server(module: ModuleType) -> bool:
        file = getattr(module, "__file__", None)
        return str(getattr(module, "__name__", "")).startswith("flwr.") or bool(file and app.holds(file))

    identify(SUPERLINK)
    seed_generators(stream(seed, "flower server"))
    ended = None
    try:
        with (watched(server, arrays.append), old_servers(grid, server.reported.server),
              simulated_time(lambda: server.cell.now, grid.sleep, of_the_server)):
            server_app(grid=grid, context=context)
    except RunOver as over:
        ended = str(over)
    except AtFault as fault:
        raise fault.args[0] from None
    except (Exception, SystemExit) as error:
        raise InputError("your-code", f"the ServerApp of {app.folder}", told_of(error, app)) from error
    if not server.began:
        raise InputError("empty", f"the train messages of the ServerApp of {app.folder}", ended,
                         hint="There is nothing to simulate")
    server.end_round(last=True)
    return ended, (arrays[-1] if arrays and arrays[-1] else None)


@contextmanager
def quiet() -> Iterator[None]:
    """Redirect the app's output to standard error and silence Flower's log below warnings, inside the block."""
    logger = logging.getLogger("flwr")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        logger.setLevel(before)
