"""Executors of sweep points: processes of this machine, or a Dask cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from netsim.base.errors import InputError

PATIENCE_S = 10     # timeout of a connection to a cluster


@dataclass(frozen=True)
class Place:
    """Factory of executors; ``open()`` is called again after an executor has broken."""

    open: Callable[[], AbstractContextManager[Executor]]
    at_once: int | None      # points submitted at a time; None: all, the executor has a queue


def place_for(workers: int | None, address: str | None) -> Place:
    """Return the Dask cluster with this scheduler address, or this machine if the address is None.

    Dask restarts a point whose worker dies.
    """
    return this_machine(workers) if address is None else Place(lambda: _dask(address), at_once=None)


def this_machine(workers: int | None = None) -> Place:
    """Return an executor factory with ``workers`` processes, by default one per core, that end with this process."""
    from netsim.learning.pool import Workers, cores

    count = workers or cores()
    # Spawned, not forked: the threads of polars do not survive a fork.
    return Place(lambda: Workers(count, start="spawn"), at_once=count)


class OnCluster(Executor):
    """Executor of a Dask client; ``lost`` is True if the connection to the scheduler is lost.

    Dask never completes futures whose results it was fetching when the connection was lost.
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
        logging.getLogger(chatty).setLevel(logging.CRITICAL)                 # errors are reported here, once
    # A client that failed to connect would try to disconnect when it is garbage-collected: 20 s and a traceback. One
    # that connected is closed below.
    quiet = type("Client", (distributed.Client,), {"__del__": lambda self: None})
    try:
        client = quiet(address, timeout=PATIENCE_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:      # a timeout is an OSError too
        raise InputError(
            "needs", "--cluster", f"{address}: {str(error) or type(error).__name__}", "a Dask scheduler that responds",
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
