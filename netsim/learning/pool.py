"""Where training runs: in worker processes of this machine, or in this very process.

The workers differ from ``ProcessPoolExecutor`` in how they end: at once and without a word, together with the process
that started them, be it by an error, by Ctrl-C or by kill -9, and in the middle of work too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
Job = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def open_pool(workers: int) -> Executor:
    """An executor with so many worker processes; with one, work is done in this process, with the same results."""
    return Workers(workers) if workers > 1 else InProcess()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class InProcess(Executor):
    """Does everything at once where it is called."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Workers(Executor):
    """Persistent worker processes.

    They are forked on Linux, so that they start at once and share loaded modules and datasets; ``start="spawn"`` is for
    work that a fork would break. In this process a thread for each worker hands it jobs and waits for the answers.
    """

    def __init__(self, count: int, start: str = "fork" if sys.platform == "linux" else "spawn") -> None:
        context: Any = multiprocessing.get_context(start)
        self._jobs: SimpleQueue[tuple[Future[Any], Job] | None] = SimpleQueue()
        self._broken = False
        self._processes = []
        ends = []
        for _ in range(count):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there,), daemon=True)
            with safe_path():
                process.start()
            there.close()    # the worker's death now ends the pipe
            self._processes.append(process)
            ends.append(here)
        self._threads = [threading.Thread(target=self._hand_out, args=(end,), daemon=True) for end in ends]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        self._jobs.put((future, (fn, args, kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the workers at once: what is still under way is what nobody waits for any more."""
        self._broken = True
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        for _ in self._threads:
            self._jobs.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _hand_out(self, worker: Connection) -> None:
        while (entry := self._jobs.get()) is not None:
            future, job = entry
            if self._broken:
                future.set_exception(BrokenExecutor("a worker process has ended"))
            elif future.set_running_or_notify_cancel():
                try:
                    worker.send(job)
                    answer, error = worker.recv()
                except (EOFError, OSError):
                    self._broken = True
                    error = BrokenExecutor("a worker process has ended")
                except Exception as problem:    # a job or an error that cannot travel
                    error = problem
                if error is None:
                    future.set_result(answer)
                else:
                    future.set_exception(error)
        worker.close()


@contextmanager
def safe_path() -> Iterator[None]:
    """Processes that are started meanwhile do not look for modules in the current folder.

    A spawned one is a ``python -c``, for which that folder comes first: a ``struct.py`` beside a stranger's sweep file
    would be run by each worker, and by the process that watches over them. What this one imports from, they do too.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def _serve(parent: Connection) -> None:
    """A worker's life. Ctrl-C, and often SIGTERM, go to all processes, but the parent alone answers them."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        fn, args, kwargs = parent.recv()
        answer: tuple[Any, Exception | None]
        try:
            answer = fn(*args, **kwargs), None
        except Exception as error:
            error.add_note("in a worker:\n" + traceback.format_exc())
            answer = None, error
        try:
            parent.send(answer)
        except Exception as error:    # an answer that cannot travel
            parent.send((None, RuntimeError(repr(error))))


def _end_with_parent() -> None:
    """An orphan has nobody to work for."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
