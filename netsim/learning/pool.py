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
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


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


class Workers(ThreadPoolExecutor):
    """Persistent worker processes.

    They are forked on Linux, so that they start at once and share loaded modules and datasets; ``start="spawn"`` is for
    work that a fork would break. In this process a thread for each worker hands it a job and waits for the answer.
    """

    def __init__(self, count: int, start: str = "fork" if sys.platform == "linux" else "spawn") -> None:
        super().__init__(count)
        context: Any = multiprocessing.get_context(start)
        self._ended = False
        self._idle: SimpleQueue[Connection] = SimpleQueue()      # pipes to workers without a job
        self._processes = []
        for _ in range(count):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there,), daemon=True)
            with safe_path():
                process.start()
            there.close()    # the worker's death now ends the pipe
            self._processes.append(process)
            self._idle.put(here)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return super().submit(self._ask, fn, args, kwargs)

    def _ask(self, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        worker = self._idle.get()
        try:
            if self._ended:
                raise EOFError
            worker.send((fn, args, kwargs))      # a job or an error that cannot travel raises another error
            answer, error = worker.recv()
        except (EOFError, OSError):
            self._ended = True
            raise BrokenExecutor("a worker process has ended") from None
        finally:
            self._idle.put(worker)
        if error is not None:
            raise error
        result: T = answer
        return result

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the workers at once: what is still under way is what nobody waits for any more."""
        self._ended = True
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        super().shutdown(wait, cancel_futures=True)


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
