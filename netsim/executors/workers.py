"""Executors: worker processes of this machine, or this process.

Unlike those of ``ProcessPoolExecutor``, workers end at once and silently with the process that started them, after an
error, Ctrl-C or kill -9, also in the middle of a task, and with them the processes that a task has started.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, TypeVar

from netsim.base.errors import InputError, WorkerError
from netsim.base.platform_info import usual_collections

T = TypeVar("T")


def open_pool(workers: int, *, fork: bool = True) -> Executor:
    """Return an executor with ``workers`` processes; with one worker, tasks run in this process, with equal results.

    Without ``fork``, processes start afresh: a GPU that this process has used is of no use to a forked one.
    """
    if workers == 1:
        return InProcess()
    return Workers(workers) if fork else Workers(workers, start="spawn")


def result_of(future: Future[T], ended: str) -> T:
    """Return the result of a task; raise WorkerError with the text ``ended`` if the worker has ended.

    Raise InputError if the task's cluster does not respond.
    """
    try:
        return future.result()
    except BrokenExecutor as error:
        if isinstance(error.__cause__, InputError):
            raise error.__cause__ from None
        raise WorkerError(ended) from error


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class InProcess(Executor):
    """Executor that runs each task immediately in the calling thread."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Workers(ThreadPoolExecutor):
    """Persistent worker processes.

    On Linux they are forked, so that they start fast and share loaded modules and datasets; ``start="spawn"`` is for
    tasks that a fork would break. In this process, one thread per worker sends it a task and waits for the result.
    """

    def __init__(self, count: int, start: str = "fork" if sys.platform == "linux" else "spawn") -> None:
        super().__init__(count)
        context: Any = multiprocessing.get_context(start)
        self._ended = False
        self._idle: SimpleQueue[Connection] = SimpleQueue()      # pipes to idle workers
        self._processes = []
        for _ in range(count):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there,), daemon=True)
            with safe_path():
                process.start()
            there.close()    # so that the pipe closes when the worker ends
            self._processes.append(process)
            self._idle.put(here)

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers, each the leader of a process group."""
        return [process.pid for process in self._processes]

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return super().submit(self._ask, fn, args, kwargs)

    def _ask(self, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        worker = self._idle.get()
        try:
            if self._ended:
                raise EOFError
            worker.send((fn, args, kwargs))      # a task or an error that cannot be pickled raises another error
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
        """End the workers at once; running tasks are abandoned."""
        self._ended = True
        for process in self._processes:
            _kill_group(process.pid)
            process.kill()
        for process in self._processes:
            process.join()
        super().shutdown(wait, cancel_futures=True)


@contextmanager
def safe_path() -> Iterator[None]:
    """Start processes inside the block without the current folder on their module path.

    A spawned process is a ``python -c``, which searches that folder first: a ``struct.py`` beside a foreign sweep file
    would be run by each worker and by the resource tracker. The module path of this process is passed on.
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
    """Run tasks from the pipe until the parent ends; ignore SIGINT and SIGTERM, which the parent handles."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)             # a group of its own, which ends as a whole
    allow_children()
    gc.freeze()                      # else a collection copies all memory that is shared with the parent
    usual_collections()              # a client's model may be in cycles, and its memory is large
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
        except Exception as error:    # a result that cannot be pickled
            parent.send((None, RuntimeError(repr(error))))


def allow_children() -> None:
    """Permit tasks in this process to start processes, as a PyTorch DataLoader does; daemons may not."""
    multiprocessing.current_process()._config["daemon"] = False      # type: ignore[attr-defined]


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        _kill_group(os.getpid())
        os._exit(1)


def _kill_group(worker: int | None) -> None:
    """Kill a worker and the processes that it has started."""
    if worker is not None and hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(worker, signal.SIGKILL)
