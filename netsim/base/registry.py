"""One registry for everything that a user may bring: by name, or ``"package.module:Name"`` for code of their own.

>>> from netsim.base.registry import Entry, Registry
>>> COINS = Registry("coin", "purse.coin", {"fair": Entry("fractions:Fraction", "heads or tails")})
>>> COINS.make("fair", {"numerator": 1, "denominator": 2})
Fraction(1, 2)
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, Generic, TypeVar

from netsim.base.errors import OWN_CODE, InputError, quoted, unknown
from netsim.base.imports import check_made_for_netsim, installed_object
from netsim.base.options import checked


@dataclass(frozen=True)
class Entry:
    """A built-in object; kinds of objects with more properties have a subclass."""

    place: str                                                   # "package.module:Name", imported when first used
    summary: str                                                 # in a line
    renamed: Mapping[str, str] = field(default_factory=dict)     # other names for options, and the right ones


SESSION = "session:"       # prefix of the names of objects of this Python session
VERSION = "#"              # between the name of such an object and its version
E = TypeVar("E", bound=Entry)


class Registry(dict[str, E], Generic[E]):
    """The built-in things of one kind by name; each method takes a user's own by import path as well.

    ``what`` they are called, ``key`` is where a scenario names one. Their options are their arguments, and stand in
    ``table``, by default the table of the key. ``given`` counts the first arguments, which netsim gives itself: with
    any, ``make`` leaves a function to be called with them. ``check`` raises an InputError for what is of another kind;
    nothing of a user's is called before. ``adapt`` makes of what a user may bring instead what is needed.
    """

    def __init__(
        self, what: str, key: str, entries: Mapping[str, E], *, table: str | None = None, given: int = 0,
        check: Callable[[str, Any], None] | None = None, adapt: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(entries)
        self.what = what
        self.key = key
        self.table = table or key.rpartition(".")[0]
        self.given = given
        self._check = check
        self._adapt = adapt
        self._lent: dict[str, Any] = {}

    def permit(self, name: str, *, allow_import: bool = False) -> None:
        """Raise InputError for an unknown name, and for code neither made for netsim nor allowed; import nothing."""
        if name in self._lent:
            return
        if name.startswith(SESSION):
            raise InputError("import-failed", self.key, quoted(name), "something that a file can bring back, which an "
                             "object of a Python session is not",
                             "Give it to simulate(...) again, or put it into an installed package")
        if name not in self and ":" not in name:
            raise unknown(self.key, name, self, hint=OWN_CODE)
        if name not in self and not allow_import:
            check_made_for_netsim(name, self.key)

    def find(self, name: str) -> Any:
        """Return the object of a name or import path, without asking for permission."""
        if name in self:
            return load(self[name].place)
        self.permit(name, allow_import=True)
        return self._fitting(name, self._lent[name] if name in self._lent else installed_object(name, self.key))

    def _fitting(self, name: str, thing: Any) -> Any:
        found = self._adapt(thing) if self._adapt else thing
        if self._check:
            self._check(name, found)
        return found

    @contextmanager
    def lend(self, thing: Any, version: str = "") -> Iterator[str]:
        """Yield a name for an object of this session, such as a function of a notebook, valid within the block.

        A ``version`` becomes part of the name: the same function with other code then has another name.
        """
        name = SESSION + str(getattr(thing, "__name__", type(thing).__name__)) + (VERSION + version if version else "")
        self._fitting(name, thing)
        self._lent[name] = thing
        try:
            yield name
        finally:
            del self._lent[name]

    def options(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        renamed = self[name].renamed if name in self else {}
        return checked(self.find(name), options, self.given, self.table, f"{self.what} {name}", renamed)

    def make(self, name: str, options: Mapping[str, Any]) -> Any:
        """Return a new object with its options, or a partial function if netsim passes the first arguments."""
        arguments, found = self.options(name, options), self.find(name)
        return partial(found, **arguments) if self.given else found(**arguments)


def first_called(parameter: str, key: str) -> Callable[[str, Any], None]:
    """Return a check that the first parameter of a function has this name, which tells what it is made for."""

    def check(name: str, found: Any) -> None:
        if parameters_of(found)[:1] != [parameter]:
            raise InputError("wrong-interface", key, quoted(name),
                             f"a function whose first parameter is called {parameter}")

    return check


def parameters_of(thing: Any) -> list[str]:
    """Return the names of a function's parameters; none for other objects, and built-in functions without a signature.
    """
    try:
        return list(inspect.signature(thing).parameters) if callable(thing) else []
    except (TypeError, ValueError):
        return []


def load(place: str) -> Any:
    """Return an object of netsim by ``"package.module:Name"``."""
    module, _, name = place.partition(":")
    return getattr(sys.modules.get(module) or import_module(module), name)
