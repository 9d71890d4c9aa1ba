"""A Dask scheduler and workers as processes of their own."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


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
