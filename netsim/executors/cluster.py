"""Executor on the workers of a Dask cluster.

A task and its arguments travel as pickled bytes. Arrays of at least ``LARGE`` bytes are sent once and kept by the
workers that have used them: Dask copies them from worker to worker. Workers may join, leave and die; a task that was
lost with its worker, or with the scheduler, is submitted again.
"""

from __future__ import annotations

import hashlib
import logging
import pickle
import random
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec, module_from_spec
from pkgutil import resolve_name
from platform import python_version
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from netsim.base.errors import InputError, WorkerError
from netsim.base.platform_info import processor, versions
from netsim.executors.workers import allow_children

PATIENCE_S = 10          # timeout of a connection to a cluster
NO_WORKERS_S = 60        # longest wait for a worker of a cluster that has none
LOOK_EVERY_S = 0.5       # interval of checks of the connection
MOST_LOSSES = 3          # times that a task may be lost with its data before it fails
LARGE = 1 << 14          # bytes of an array that is sent once instead of with every task
MOST_KEPT = 8            # arrays that stay on the cluster while no task needs them
CHECKED = ("netsim", "torch")      # packages that are looked for when a cluster is opened; the others with every task
DASK = {"dask", "distributed", "tornado"}
ONE_AT_A_TIME = threading.Lock()     # torch seeds the whole process, and a Dask worker may have several threads


class NotProvidedError(LookupError):
    """A worker lacks an object of :meth:`ClusterExecutor.provide`; ``args[0]`` is its digest."""


@dataclass(frozen=True)
class _Place:
    """Position of a large array among the arguments of a task."""

    number: int


@dataclass(eq=False)
class _Call:
    """Task of this process: what to call, its future, and Dask's future of the latest attempt."""

    payload: bytes
    arrays: list[tuple[str, np.ndarray]]      # large arguments with their digests
    future: Future[Any] = field(default_factory=Future)
    remote: Any = None
    losses: int = 0


_provided: dict[str, Any] = {}      # in a worker: objects that tasks have brought, by digest


def provided(digest: str) -> Any:
    """Return an object that the client of this worker provides; raise NotProvidedError until it has been sent."""
    if digest not in _provided:
        raise NotProvidedError(digest)
    return _provided[digest]


def run_task(payload: bytes, arrays: list[np.ndarray], brought: dict[str, Any], made_with: dict[str, str]) -> Any:
    """Run a task in a worker; return its result and the worker's processor."""
    here = {name: _version_of(name) for name in made_with}
    if here != made_with:
        other = [name for name in made_with if here[name] != made_with[name]]
        raise _other_versions("a worker " + ", ".join(_with(name, here[name]) for name in other),
                              ", ".join(f"{name} {made_with[name]}" for name in other))
    allow_children()
    separate_generators()
    with ONE_AT_A_TIME:
        _provided.clear()
        _provided.update(brought)
        fn, args, kwargs = pickle.loads(payload)
        args = [arrays[arg.number] if isinstance(arg, _Place) else arg for arg in args]
        return fn(*args, **kwargs), processor()


@cache
def separate_generators() -> None:
    """Give Dask a copy of the module ``random``: tasks and Flower apps seed the generator of this process, and draws of
    Dask's threads, as before it reconnects, would change theirs."""
    spec = find_spec("random")
    assert spec is not None
    assert spec.loader is not None
    own = module_from_spec(spec)
    spec.loader.exec_module(own)
    for module in [module for name, module in sys.modules.items() if name.partition(".")[0] in DASK]:
        for name, value in list(vars(module).items()):
            if value is random:
                setattr(module, name, own)
            elif getattr(random, name, random) is value:      # imported by name
                setattr(module, name, getattr(own, name))


class ClusterExecutor(Executor):
    """Executor on the Dask cluster of a scheduler's address, such as ``"tcp://host:8786"``; see :func:`connect`.

    Workers must have this process's versions of the packages in ``needs``, besides those of netsim.
    """

    def __init__(self, address: str, needs: Sequence[str] = ()) -> None:
        self._address = address
        self._made_with = {**versions(), **{name: version(name) for name in needs}}
        self._client = self._connect()
        self._calls: dict[_Call, None] = {}             # pending
        self._sent: OrderedDict[str, Any] = OrderedDict()      # Dask's futures of what was sent, by digest
        self._offered: dict[str, Any] = {}              # objects of ``provide``
        self._wanted: set[str] = set()                  # digests of those that a worker lacked
        self._ended: SimpleQueue[tuple[_Call, Any]] = SimpleQueue()
        self._fault: InputError | None = None
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self.processors: set[str] = set()
        self.bytes_sent = 0                             # of large arrays and provided objects, from this process
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

    def _connect(self) -> Any:
        return connect(self._address, {name: number for name, number in self._made_with.items()
                                       if name in CHECKED or name not in versions()})

    def provide(self, digest: str, thing: Any) -> None:
        """Offer an object to tasks, which get it by ``provided(digest)``; it is sent when a worker asks for it."""
        self._offered[digest] = thing

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        arrays: list[tuple[str, np.ndarray]] = []
        placed = list(args)
        for number, arg in enumerate(args):
            if isinstance(arg, np.ndarray) and arg.nbytes >= LARGE:
                placed[number] = _Place(len(arrays))
                digest = hashlib.sha256(repr((arg.shape, arg.dtype)).encode())
                digest.update(np.ascontiguousarray(arg).data)
                arrays.append((digest.hexdigest(), arg))
        call = _Call(pickle.dumps((fn, placed, kwargs)), arrays)
        with self._lock:
            self._calls[call] = None
            if self._fault is None:
                self._send(call)
            else:
                self._end(call, self._broken())
        return call.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Disconnect; tasks that have not started are abandoned."""
        self._closed.set()
        self._keeper.join()
        with self._lock:
            for call in list(self._calls):
                self._end(call, BrokenExecutor("the connection was closed"))
            _close(self._client)

    def _send(self, call: _Call) -> None:
        call.remote = None
        try:
            arrays = [self._reference(digest, array) for digest, array in call.arrays]
            brought = {digest: self._reference(digest, self._offered[digest]) for digest in self._wanted}
            call.remote = self._client.submit(run_task, call.payload, arrays, brought, self._made_with, pure=False)
        except Exception as error:
            if self._client.status == "running" and not isinstance(error, OSError | RuntimeError | CancelledError):
                raise      # other errors are those of a client that was closed meanwhile
            return         # the connection was lost: ``_look`` restores it
        call.remote.add_done_callback(lambda done: self._ended.put((call, done)))

    def _reference(self, digest: str, thing: Any) -> Any:
        """Return Dask's future of an array or a provided object, which is sent unless the cluster has it."""
        if digest not in self._sent or self._sent[digest].status in ("cancelled", "lost", "error"):
            self._sent[digest] = self._client.scatter(thing, hash=False)
            parts = [thing] if isinstance(thing, np.ndarray) else vars(thing).values()
            self.bytes_sent += sum(part.nbytes for part in parts if isinstance(part, np.ndarray))
        self._sent.move_to_end(digest)
        for old in [each for each in self._sent if each not in self._wanted][:-MOST_KEPT]:
            del self._sent[old]      # tasks that need it keep it
        return self._sent[digest]

    def _keep(self) -> None:
        """Collect results and restore the connection, in a thread, until the executor is closed."""
        seen = time.monotonic()      # when a task ended, or a worker was there
        while not self._closed.is_set():
            try:
                call, remote = self._ended.get(timeout=LOOK_EVERY_S)
                seen = time.monotonic()
                if call.remote is remote and call in self._calls:      # not an attempt before the last
                    self._take(call)
            except Empty:
                with self._lock:
                    seen = self._look(seen)

    def _take(self, call: _Call) -> None:
        """Pass the result of a task on, or submit it again if it was lost."""
        try:
            result, its_processor = self._fetch(call.remote)
        except NotProvidedError as error:
            with self._lock:
                self._wanted.update(error.args)
                self._send(call)
        except (CancelledError, OSError):      # lost with a worker that held its data, or with the scheduler
            with self._lock:
                self._send_again(call)
        except Exception as error:
            with self._lock:
                self._end(call, _explained(error, self._address))
        else:
            with self._lock:
                self.processors.add(its_processor)
                del self._calls[call]
            call.future.set_result(result)

    def _send_again(self, call: _Call) -> None:
        call.losses += 1
        if call.losses > MOST_LOSSES:
            self._end(call, WorkerError(f"the data of a task were lost {call.losses} times with workers of "
                                        f"{self._address}"))
            return
        if call.losses > 1:
            self._sent.clear()
        self._send(call)

    def _fetch(self, remote: Any) -> Any:
        """Return the result; Dask never completes a transfer during which the connection is lost."""
        while True:
            try:
                return remote.result(timeout=LOOK_EVERY_S)
            except TimeoutError:
                if self._client.status != "running" or self._closed.is_set():
                    raise

    def _look(self, seen: float) -> float:
        """Reconnect if the scheduler was lost; give up if it stays away, or has no workers."""
        if not self._calls or self._fault:
            return time.monotonic()
        try:
            if self._client.status != "running":
                _close(self._client)
                self._client = self._connect()
                self._sent.clear()
                for call in self._calls:
                    call.remote = None
            for call in self._calls:
                if call.remote is None:
                    self._send(call)
            if time.monotonic() - seen < NO_WORKERS_S:
                return seen
            if not self._client.nthreads():
                raise _no_workers(self._address)
        except InputError as error:
            self._fault = error
            for call in list(self._calls):
                self._end(call, self._broken())
        except OSError:      # lost just now
            return seen
        return time.monotonic()

    def _end(self, call: _Call, error: Exception) -> None:
        self._calls.pop(call, None)
        call.future.set_exception(error)

    def _broken(self) -> BrokenExecutor:
        error = BrokenExecutor(str(self._fault))
        error.__cause__ = self._fault
        return error


def processors_of(executor: Executor | None) -> str | None:
    """Return the processors of the workers of a cluster that have run tasks; None for other executors."""
    return "; ".join(sorted(executor.processors)) or None if isinstance(executor, ClusterExecutor) else None


def connect(address: str, packages: Mapping[str, str]) -> Any:
    """Return a Dask client of a scheduler with workers that have these versions of packages.

    Raise InputError if the scheduler does not respond, has no workers, or workers with other versions.
    """
    client = _client_of(address)
    try:
        _check_workers(client, packages)
    except (TimeoutError, OSError):
        _close(client)
        raise _no_workers(address) from None
    except InputError:
        _close(client)
        raise
    return client


def _client_of(address: str) -> Any:
    try:
        distributed: Any = import_module("distributed")      # an extra
    except ImportError:
        raise InputError("needs", "--cluster", expected="Dask", hint="pip install 'netsim[cluster]'") from None
    separate_generators()
    for chatty in ("distributed.client", "tornado.application"):
        logging.getLogger(chatty).setLevel(logging.CRITICAL)                 # errors are reported here, once
    # A client that failed to connect would try to disconnect when it is garbage-collected: 20 s and a traceback. One
    # that connected is closed below.
    quiet = type("Client", (distributed.Client,), {"__del__": lambda self: None})
    try:
        return quiet(address, timeout=PATIENCE_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:      # a timeout is an OSError too
        raise InputError(
            "needs", "--cluster", f"{address}: {str(error) or type(error).__name__}", "a Dask scheduler that responds",
            "Start one with `dask scheduler`, and workers with `dask worker ADDRESS --nthreads 1`") from None


def _check_workers(client: Any, packages: Mapping[str, str]) -> None:
    """Wait for a worker; raise InputError if one has other packages: one that cannot load a task ends silently."""
    client.wait_for_workers(1, timeout=PATIENCE_S)
    for worker, there in client.run(resolve_name, f"{__name__}:PATIENCE_S", on_error="return").items():
        if isinstance(there, Exception):      # installed, as its metadata says, but not where Python finds it
            raise _other_versions(f"worker {worker} without netsim", f"netsim {version('netsim')}")
    for name, wanted in packages.items():
        for worker, there in client.run(version, name, on_error="return").items():
            if there != wanted:
                raise _other_versions(f"worker {worker} {_with(name, there)}", f"{name} {wanted}")


@cache
def _version_of(name: str) -> str | None:
    """Return the version of Python or of a package in this process; None without it. Cached, since tasks are many."""
    with suppress(PackageNotFoundError):
        return python_version() if name == "python" else version(name)
    return None


def _with(name: str, found: Any) -> str:
    return f"with {name} {found}" if isinstance(found, str) else f"without {name}"


def _other_versions(found: str, expected: str) -> InputError:
    return InputError("needs", "--cluster", found, f"the versions of this process, {expected}",
                      "Install the same packages on all machines of the cluster")


def _no_workers(address: str) -> InputError:
    return InputError("needs", "--cluster", f"no workers of {address}", "one at least", "Start some with "
                      f"`dask worker {address} --nthreads 1`, where netsim is installed")


def _close(client: Any) -> None:
    with suppress(OSError, RuntimeError):      # the scheduler may be gone
        client.close()


def _explained(error: Exception, address: str) -> Exception:
    """Return the error of a task as this process reports it."""
    if type(error).__name__ == "KilledWorker":
        return WorkerError(f"several workers of {address} died during the same task, most often because memory ran out")
    missing = next((each for each in (error, error.__cause__) if isinstance(each, ModuleNotFoundError)), None)
    if missing is not None:
        name = missing.name or str(missing)
        return InputError("needs", "--cluster", f"a machine of the cluster {address} without {name}",
                          "the packages of this process",
                          "Install netsim and your own packages on all machines of the cluster")
    return error
