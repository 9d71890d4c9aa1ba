"""Factories of executors: processes of this machine, or a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass

from netsim.executors.cluster import ClusterExecutor
from netsim.executors.workers import Workers, cores


@dataclass(frozen=True)
class ExecutorFactory:
    """Factory of executors; ``open()`` is called again after an executor has broken."""

    open: Callable[[], AbstractContextManager[Executor]]
    at_once: int | None      # points submitted at a time; None: all, the executor has a queue


def place_for(workers: int | None = None, address: str | None = None) -> ExecutorFactory:
    """Return the Dask cluster with this scheduler address, or else ``workers`` processes, by default one per core.

    Dask restarts a point whose worker dies; processes end with this one.
    """
    if address is not None:
        return ExecutorFactory(lambda: ClusterExecutor(address), at_once=None)
    count = workers or cores()
    # Spawned, not forked: the threads of polars do not survive a fork.
    return ExecutorFactory(lambda: Workers(count, start="spawn"), at_once=count)
