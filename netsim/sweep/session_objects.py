"""Functions and classes of a Python session in a sweep: names that change with their code, and passage to workers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from netsim.base.errors import InputError, describe_value
from netsim.base.registry import VERSION
from netsim.executors.factory import ExecutorFactory
from netsim.scenario.aliases import canonical_key
from netsim.validation import BROUGHT

DIGITS = 12        # of a fingerprint in a name
# attributes of a class that say nothing of what it does
NO_CODE = {"__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__"}


class SessionNames:
    """Temporary registry names of the session's objects that a sweep uses."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._things: dict[tuple[str, str], tuple[Any, str]] = {}      # by key and own name: object, registry name

    def __bool__(self) -> bool:
        return bool(self._things)

    def name(self, key: str, value: Any) -> Any:
        """Return the scenario value: for a function or class, its temporary registry name."""
        if not callable(value):
            return value
        what = next((what for what, (_, named) in BROUGHT.items() if named == canonical_key(key)), None)
        if what is None:
            raise InputError("wrong-type", f"run_sweep: {key}", describe_value(value), "a value",
                             f"Functions and classes are accepted for {', '.join(BROUGHT)}")
        called = getattr(value, "__name__", type(value).__name__)
        if (what, called) not in self._things:
            lent = BROUGHT[what][0].lend(value, fingerprint(value))
            self._things[what, called] = value, self._stack.enter_context(lent)
        thing, name = self._things[what, called]
        if thing is not value:
            raise InputError("duplicate", f"run_sweep: {key}", f'two objects called "{called}"',
                             hint="Give them different names, which identify the cases")
        return name

    def passed_to(self, place: ExecutorFactory) -> ExecutorFactory:
        """Return a place whose workers know the objects too; InputError for an object that cannot be passed."""
        if not self._things:
            return place
        import cloudpickle

        things = [(what, thing, name.partition(VERSION)[2]) for (what, _), (thing, name) in self._things.items()]
        try:
            packed = cloudpickle.dumps(things)
        except Exception as error:      # whatever an object's own pickling raises
            raise InputError("unsupported", "run_sweep: workers", f"an object that cannot be passed on ({error})",
                             hint="Remove workers and cluster, or put it into an installed package") from None

        @contextmanager
        def opened() -> Iterator[Executor]:
            with place.open() as executor:
                yield _Passing(executor, packed)

        return ExecutorFactory(opened, place.at_once)


class _Passing(Executor):
    """Executor whose tasks run with the objects of the session."""

    def __init__(self, executor: Executor, packed: bytes) -> None:
        self._executor, self._packed = executor, packed

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._executor.submit(with_objects, self._packed, fn, *args, **kwargs)


def with_objects(packed: bytes, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function while the packed objects have their names in the registries; runs in a worker."""
    import cloudpickle

    with ExitStack() as stack:
        for what, thing, version in cloudpickle.loads(packed):
            stack.enter_context(BROUGHT[what][0].lend(thing, version))
        return fn(*args, **kwargs)


def fingerprint(thing: Any) -> str:
    """Return a hash of the code of a function or class and of what it uses from its own module.

    Constants, default values and closures count, also those of functions that it calls; installed packages do not.
    """
    digest = hashlib.sha256()
    _add(thing, digest.update, set())
    return digest.hexdigest()[:DIGITS]


Add = Callable[[bytes], None]


def _add(thing: Any, add: Add, seen: set[int]) -> None:
    """Add a value and what it consists of; each object once."""
    if isinstance(thing, bool | int | float | complex | str | bytes | None | np.generic):
        add(repr(thing).encode())
        return
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, FunctionType):
        _add_function(thing, add, seen)
    elif isinstance(thing, type):
        _add_class(thing, add, seen)
    elif isinstance(thing, list | tuple | set | frozenset | dict):
        for part in thing.items() if isinstance(thing, dict) else thing:
            _add(part, add, seen)
        add(f"{type(thing).__name__} {len(thing)}".encode())
    elif isinstance(thing, np.ndarray):
        add(f"{thing.dtype} {thing.shape}".encode() + thing.tobytes())
    elif isinstance(thing, ModuleType):
        add(thing.__name__.encode())
    else:
        _add_object(thing, add, seen)


def _add_function(thing: FunctionType, add: Add, seen: set[int]) -> None:
    _add_code(thing.__code__, add, seen)
    cells = [cell.cell_contents for cell in thing.__closure__ or ()]
    used = [thing.__globals__[name] for name in _names(thing.__code__) if name in thing.__globals__]
    own = [each for each in used if getattr(each, "__module__", thing.__module__) == thing.__module__]
    for part in (thing.__defaults__, thing.__kwdefaults__, *cells, *own):
        _add(part, add, seen)


def _add_class(thing: type, add: Add, seen: set[int]) -> None:
    add(thing.__qualname__.encode())
    for name, part in sorted(vars(thing).items()):
        if name not in NO_CODE:
            add(name.encode())
            _add(getattr(part, "__func__", part), add, seen)
    for base in thing.__bases__:
        _add(base if base.__module__ == thing.__module__ else base.__qualname__, add, seen)


def _add_object(thing: Any, add: Add, seen: set[int]) -> None:
    kind = type(thing)
    add(kind.__qualname__.encode())
    if isinstance(vars(kind).get("__call__"), FunctionType):
        _add(kind, add, seen)
    for name in ("func", "args", "keywords", "__dict__"):      # of a functools.partial, and of any object
        _add(getattr(thing, name, None), add, seen)


def _add_code(code: CodeType, add: Add, seen: set[int]) -> None:
    add(code.co_code + " ".join(code.co_names).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _add_code(constant, add, seen)
        else:
            add(repr(constant).encode())


def _names(code: CodeType) -> list[str]:
    """Return the global names that a function and the functions inside it use."""
    inner = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in _names(constant)]
    return [*code.co_names, *inner]
