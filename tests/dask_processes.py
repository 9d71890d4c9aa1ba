"""A Dask scheduler and workers as processes of their own."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from netsim.executors.cluster import ClusterExecutor

distributed = pytest.importorskip("distributed")
LONG_S = 300      # for processes to start on a loaded machine


@contextmanager
def started(
    *command: str, folder: str | None = None, env: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               cwd=folder, env=env)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def scheduler_at(address: str) -> tuple[str, ...]:
    return ("distributed.cli.dask_scheduler", "--host", address, "--no-dashboard")


def worker_of(address: str) -> tuple[str, ...]:
    return ("distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard")


def wait_for_workers(address: str, count: int) -> None:
    """Wait until so many workers have joined, however loaded the machine is."""
    with distributed.Client(address, timeout=LONG_S, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=LONG_S)


def lose_task(
    number: int, worker: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, act: Callable[[], None],
) -> None:
    """Stop a worker (SIGSTOP) before the n-th task is sent to it, and act when it was sent: it cannot end there."""
    submit, send, numbers, sender = ClusterExecutor.submit, distributed.Client.submit, itertools.count(1), [0]

    def submit_counted(self: Any, *args: Any, **options: Any) -> Any:
        sender[0] = threading.get_ident() if next(numbers) == number else 0      # other threads send tasks again
        return submit(self, *args, **options)

    def send_and_act(self: Any, *args: Any, **options: Any) -> Any:
        if sender[0] != threading.get_ident():
            return send(self, *args, **options)
        os.kill(worker.pid, signal.SIGSTOP)
        future = send(self, *args, **options)
        act()
        return future

    monkeypatch.setattr(ClusterExecutor, "submit", submit_counted)
    monkeypatch.setattr(distributed.Client, "submit", send_and_act)
