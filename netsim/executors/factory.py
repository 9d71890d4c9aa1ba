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


def place_for(workers: int | None, address: str | None) -> ExecutorFactory:
    """Return the Dask cluster with this scheduler address, or this machine if the address is None.

    Dask restarts a point whose worker dies.
    """
    if address is None:
        return this_machine(workers)
    return ExecutorFactory(lambda: ClusterExecutor(address), at_once=None)


def this_machine(workers: int | None = None) -> ExecutorFactory:
    """Return an executor factory with ``workers`` processes, by default one per core, that end with this process."""
    count = workers or cores()
    # Spawned, not forked: the threads of polars do not survive a fork.
    return ExecutorFactory(lambda: Workers(count, start="spawn"), at_once=count)
