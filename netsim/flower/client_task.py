"""Task of a worker: run the ClientApp of a node, which maps a message and a context to a reply and a new context.

A worker of this machine uses the app's folder. A worker of a cluster gets the files of the app once, and unpacks them
in a temporary folder.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from flwr.app import Context, Error, Message
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from netsim.base.errors import InputError
from netsim.base.files import TemporaryFolder
from netsim.base.rng import stream
from netsim.executors.cluster import provided
from netsim.flower.app_folder import FlowerApp, describe_failure, importable, load_component
from netsim.flower.compute import clock_hz
from netsim.flower.messages import ClientReply
from netsim.flower.seeding import seed_generators
from netsim.flower.version_check import identify

APP_RAISED = 2             # Flower's code for a ClientApp that raised an exception
UNKNOWN = 0
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
REPEATED_S = 1.0           # CPU seconds below which a measurement is repeated


@dataclass(frozen=True, eq=False)
class ClientTask:
    """A message to a device, and all that its answer depends on."""

    app: FlowerApp
    message: Message
    context: Context
    seed: int
    device: int
    count: int             # earlier messages to the device


@dataclass(eq=False)
class LoadedApp:
    """The app that this worker has loaded, as it was sent and as it lies on this machine."""

    sent: FlowerApp
    here: FlowerApp
    unload: ExitStack
    keep: TemporaryFolder | None      # of ``here``, which is removed with this object
    libraries: ThreadpoolController | None = None      # BLAS and OpenMP, once the app has loaded them
    warm: bool = False     # True if the worker has run a message, and so has loaded code and data


_loaded: list[LoadedApp] = []      # at most one


def _load(app: FlowerApp) -> tuple[LoadedApp, Any]:
    """Return the app on this machine and its ClientApp; unload another app."""
    if not _loaded or _loaded[0].sent != app:
        while _loaded:
            _loaded.pop().unload.close()
        folder = None if app.files_sha256 is None else provided(app.files_sha256).unpacked()
        if folder is None:
            _keep_standard_output()
        os.environ.update(dict.fromkeys(THREADS, "1"))      # of libraries that are loaded later
        unload, here = ExitStack(), replace(app, folder=folder.path) if folder else app
        unload.enter_context(importable(here))
        _loaded.append(LoadedApp(app, here, unload, folder))
    [found] = _loaded
    for name in app.preloaded:
        import_module(name)                   # so that it is seeded even if the app imports it late
    try:
        client = load_component(found.here, "clientapp")
    except InputError as error:
        if app.files_sha256 is not None and isinstance(error.__context__, ModuleNotFoundError):
            raise error.__context__ from None      # this machine lacks a package: an error of the cluster
        raise
    found.libraries = found.libraries or ThreadpoolController()
    return found, client


@contextmanager
def _one_thread(libraries: ThreadpoolController) -> Iterator[None]:
    """Limit BLAS, OpenMP and torch to one thread: the order of sums must not depend on workers and cores."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    with libraries.limit(limits=1):
        yield


def _keep_standard_output() -> None:
    """Redirect standard output to standard error: it is reserved for the result of the run."""
    sys.stdout = sys.stderr
    os.dup2(2, 1)                             # also for libraries and processes of the app


def answer(task: ClientTask) -> ClientReply:
    """Run the ClientApp on a message in a worker, as Flower's engine does."""
    app, message, context = task.app, task.message, task.context
    loaded, client = _load(app)
    identify(context.node_id)
    seed_generators(stream(task.seed, "flower client", task.count, task.device))      # independent of the worker
    config, loaded.warm = dict(context.run_config), True
    try:
        with _one_thread(loaded.libraries):
            reply = client(message=message, context=context)
    except (Exception, SystemExit) as error:
        if app.files_sha256 is not None and isinstance(error, ModuleNotFoundError):
            raise                             # the answer must not depend on the machine
        problem = Error(APP_RAISED, describe_failure(error, loaded.here))
    else:
        if context.run_config == config and isinstance(reply, Message):
            return ClientReply(reply, context)
        problem = (Error(UNKNOWN, "the app changed its run_config, which Flower does not allow")
                   if context.run_config != config else
                   Error(APP_RAISED, f"the app returned {type(reply).__name__}, expected a Message"))
    return ClientReply(Message(problem, reply_to=message), None)


def measure(task: ClientTask) -> tuple[float, float, float, float]:
    """Run a message again in a worker that has loaded its data; return the fields of ``Measured`` after samples."""
    def run() -> float:
        before = _cpu_s()
        answer(replace(task, message=deepcopy(task.message), context=deepcopy(task.context)))
        return _cpu_s() - before

    loaded, _ = _load(task.app)
    if not loaded.warm:
        run()                                 # loads code and data
    cpu_s, flop, flops_per_s = run(), 0.0, 0.0
    if cpu_s < REPEATED_S:
        cpu_s = min(cpu_s, run())
    if "torch" in sys.modules:
        flops = import_module("netsim.learning.flops")
        flop, flops_per_s = flops.counted_during(run), flops.speed_of_this_machine()
    return flop, cpu_s, flops_per_s, clock_hz()


def _cpu_s() -> float:
    """Return the CPU seconds of this process and its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
