"""Where the points of a sweep run: in processes of this machine, or on a Dask cluster; one interface for both."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from netsim.base.errors import InputError

PATIENCE_S = 10     # how long a cluster may take to answer


@dataclass(frozen=True)
class Place:
    """Somewhere to run points: ``open()`` gives an executor, and can be called again after one has broken down."""

    open: Callable[[], AbstractContextManager[Executor]]
    at_once: int | None      # how many points it is given at a time; None: all, it has a queue of its own


def place_for(workers: int | None, address: str | None) -> Place:
    """A Dask cluster whose scheduler listens at an address, or this machine where none is given.

    The cluster starts a point again when its worker dies.
    """
    return this_machine(workers) if address is None else Place(lambda: _dask(address), at_once=None)


def this_machine(workers: int | None = None) -> Place:
    """So many worker processes, one a core unless told otherwise, which end with this one, however it ends."""
    from netsim.learning.pool import Workers, cores

    count = workers or cores()
    # Spawned, not forked: the threads of polars do not survive a fork.
    return Place(lambda: Workers(count, start="spawn"), at_once=count)


class OnCluster(Executor):
    """A Dask client's executor that can tell whether its scheduler is ``lost``.

    What was under way just then never ends: Dask leaves the future of a result alone that it was fetching.
    """

    def __init__(self, client: Any) -> None:
        self._client, self._executor = client, client.get_executor(pure=False)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = self._executor.submit(fn, *args, **kwargs)
        return future

    @property
    def lost(self) -> bool:
        return bool(self._client.status != "running")


@contextmanager
def _dask(address: str) -> Iterator[Executor]:
    try:
        distributed: Any = import_module("distributed")      # an extra
    except ImportError:
        raise InputError("needs", "--cluster", expected="Dask", hint="pip install 'netsim[cluster]'") from None
    for chatty in ("distributed.client", "tornado.application"):
        logging.getLogger(chatty).setLevel(logging.CRITICAL)                 # what goes wrong is said here, once
    # A client that could not be made would try to say goodbye when it is collected: 20 s, and a traceback at the end.
    # One that could be made is closed below.
    quiet = type("Client", (distributed.Client,), {"__del__": lambda self: None})
    try:
        client = quiet(address, timeout=PATIENCE_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:      # a timeout is an OSError too
        raise InputError(
            "needs", "--cluster", f"{address}: {str(error) or type(error).__name__}", "a Dask scheduler that answers",
            "Start one with `dask scheduler`, and workers with `dask worker ADDRESS --nthreads 1`") from None
    try:
        try:
            client.wait_for_workers(1, timeout=PATIENCE_S)
        except (TimeoutError, OSError):
            raise InputError("needs", "--cluster", f"no workers of {address}", "one at least", "Start some with "
                             f"`dask worker {address} --nthreads 1`, where netsim is installed") from None
        yield OnCluster(client)
    finally:
        with suppress(OSError):      # the scheduler may be gone
            client.close()
