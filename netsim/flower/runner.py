"""Run of a Flower app in a cell."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import active_count
from typing import Any

import numpy as np
from flwr.app import Context, RecordDict

from netsim.base.errors import InputError
from netsim.base.files import folder_for, packed, replace_file
from netsim.base.rng import stream
from netsim.executors.cluster import ClusterExecutor
from netsim.executors.workers import Workers, cores
from netsim.flower.app_folder import FlowerApp, describe_failure, importable, load_component, read_app
from netsim.flower.app_output import app_output
from netsim.flower.app_server import AppServer, RunOver
from netsim.flower.clients import Clients
from netsim.flower.compute import FILE
from netsim.flower.grid import AppError, CellGrid
from netsim.flower.legacy_server import old_servers
from netsim.flower.reply_cache import FOLDER, ReplyCache
from netsim.flower.runtime_environment import simulated_time, watched
from netsim.flower.scenario_subset import AppLearning, app_scenario
from netsim.flower.seeding import seed_generators
from netsim.flower.version_check import RUN_ID, SUPERLINK, identify
from netsim.flower.watchdog import deadlocks_end
from netsim.run import Run
from netsim.scenario import Scenario
from netsim.server.server import RunProgress
from netsim.session import journal_of, open_session
from netsim.trace.run_directory import is_finished
from netsim.validation import validate_cell

MODEL = "model.npz"
THREADED = {"jax", "tensorflow"}      # start threads that Python does not count


def run_app(
    app: Path | str, scenario: Scenario, out: Path | str | None = None, seed: int = 0, *,
    workers: int | None = None, cluster: str | None = None, run_config: Sequence[str] = (), resume: bool = False,
    progress: Callable[[RunProgress], None] | None = None, allow_import: bool = False, verbose: bool = False,
) -> Run:
    """Run a Flower app in a scenario's cell; ``model.npz`` in the run's folder is the last model of the strategy.

    ``app`` is the app's folder, whose code is run; ``run_config`` changes its configuration, each text as KEY=VALUE.
    The other arguments are those of :func:`netsim.simulate`, with ClientApps in the place of training: processes or a
    cluster run them, and a resumed ServerApp starts again and receives the stored replies. ``verbose`` prints Flower's
    log to standard error while the app runs; otherwise it is printed at the end if the app has reported no metrics.

    Raise InputError if the app or the scenario is invalid, or the app raises an exception.
    """
    if cluster is not None and workers is not None:
        raise InputError("conflict", "--cluster", "--workers", hint="ClientApps run on a cluster, instead of in worker "
                         "processes: remove one of both")
    found_app = read_app(Path(app), run_config)
    scenario = app_scenario(scenario)
    validate_cell(scenario, allow_import=allow_import)
    path, keep = folder_for(out)
    journal = journal_of(path, scenario, seed, learning=True, app=found_app.name, app_sha256=found_app.digest)
    journal.beside = FOLDER, FILE
    if resume and is_finished(path):
        journal.refuse_another()
        return Run(path)
    with (importable(found_app), app_output(verbose=verbose) as log,
          opened(found_app, workers, cluster) as (server_app, pool)):
        kept = ReplyCache(path)
        clients = Clients(found_app, scenario.size, seed, pool, kept)
        with open_session(scenario, journal, seed, begun="restart" if resume else "refuse",
                          learning=lambda: nullcontext(AppLearning(scenario, seed, pool))) as stage:
            stage.progress = progress
            server = AppServer(stage, clients)
            with deadlocks_end(found_app.folder, getattr(pool, "pids", None)):
                ended, arrays = play(found_app, server_app, server, seed)
            if arrays is not None:      # last model of the strategy
                model = {name: array.numpy() for name, array in arrays.items()}
                replace_file(path / MODEL, packed(lambda file: np.savez(file, **model)))
            if not server.replies.reported.any:
                log.show()
            stage.finish(target_reached=None, app=found_app.name, ended=ended, **server.replies.totals())
            kept.remove()
    return Run(path, keep)


@contextmanager
def opened(app: FlowerApp, workers: int | None, cluster: str | None) -> Iterator[tuple[Any, Executor]]:
    """Import an app; yield its ServerApp, and the executor of its ClientApps."""
    for name in app.preloaded:
        import_module(name)                           # so that it is seeded even if the app imports it late
    threads = active_count()
    server_app = load_component(app, "serverapp")
    load_component(app, "clientapp")                  # report import errors now
    # forked workers share what is loaded, but not the threads of JAX and others, without which they would hang
    safe = active_count() <= threads and not THREADED & sys.modules.keys()
    with (ClusterExecutor(cluster, needs=["flwr"]) if cluster else
          Workers(workers or cores(), *([] if safe else ["spawn"]))) as pool:
        yield server_app, pool


def play(app: FlowerApp, server_app: Any, server: AppServer, seed: int) -> tuple[str | None, Any]:
    """Run the ServerApp; return the reason of an early end, if any, and the last model of its strategy."""
    grid, arrays, holds = CellGrid(server), list[Any](), cache(app.holds)
    context = Context(run_id=RUN_ID, node_id=SUPERLINK, node_config={}, state=RecordDict(), run_config=dict(app.config))

    def of_the_server(variables: Mapping[str, Any]) -> bool:
        file = variables.get("__file__")
        return str(variables.get("__name__")).startswith("flwr.") or bool(file and holds(file))

    identify(SUPERLINK)
    seed_generators(stream(seed, "flower server"))
    ended = None
    try:
        with (watched(server, arrays.append), old_servers(grid, server, arrays.append),
              simulated_time(lambda: server.cell.now, grid.sleep, of_the_server)):
            server_app(grid=grid, context=context)
    except RunOver as over:
        ended = str(over)
    except AppError as fault:
        raise fault.args[0] from None
    except (Exception, SystemExit) as error:
        raise InputError("your-code", f"the ServerApp of {app.folder}", describe_failure(error, app)) from error
    if not server.began:
        raise InputError("empty", f"the train messages of the ServerApp of {app.folder}", ended,
                         hint="There is nothing to simulate")
    server.finish(early=ended is not None)
    return ended, (arrays[-1] if arrays and arrays[-1] else None)
