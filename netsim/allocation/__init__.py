"""Who gets which bandwidth, CPU frequency and power in a round: ``Problem -> Plan``, one file a method."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from netsim.allocation.problem import Infeasible, Plan, Problem, plan_for
from netsim.errors import InputError, one_of

__all__ = ["METHODS", "Infeasible", "Plan", "Problem", "allocate", "check_method", "plan_for"]

Solver = Callable[..., Plan]


@dataclass(frozen=True)
class Option:
    """A setting of a method as the user writes it, and the parameter of its function that it becomes."""

    parameter: str
    allowed: str
    accepts: Callable[[Any], bool]


@dataclass(frozen=True)
class Method:
    """An allocation method: what it does in a line, where it lives, what can be set."""

    summary: str
    target: str                                            # "package.module:function", imported when first used
    options: Mapping[str, Option] = field(default_factory=dict)

    def load(self) -> Solver:
        return _load(self.target)


METHODS: dict[str, Method] = {
    "sao": Method("exact optimum: the shortest round that keeps every budget", "netsim.allocation.sao:solve"),
    "equal": Method("equal bandwidth, each CPU as fast as its budget allows", "netsim.allocation.equal:solve"),
}


def allocate(problem: Problem, method: str = "sao", **options: Any) -> Plan:
    """The method's plan for the problem; raises :class:`Infeasible` where it has none.

    ``method`` is a name in :data:`METHODS` or ``"package.module:function"`` for the user's own code, called with
    the problem and the options.

    >>> problem = Problem(bits=1e6, cycles=1e9, capacitance=1e-28, gain=[1e-10, 1e-11], power_w=0.1, budget_j=0.3,
    ...                   cpu_min_hz=1e8, cpu_max_hz=1e9, bandwidth_hz=1e6, noise_w_per_hz=4e-21)
    >>> plan = allocate(problem)
    >>> f"{plan.round_s:.4f} s", [f"{b / 1e3:.0f} kHz" for b in plan.bandwidth_hz]
    ('1.1941 s', ['410 kHz', '590 kHz'])
    """
    solver, arguments = _resolve(method, options)
    return solver(problem, **arguments)


def check_method(method: str, options: Mapping[str, Any]) -> None:
    """Raise :class:`InputError` unless the method is there and takes these options."""
    _resolve(method, options)


def _resolve(method: str, options: Mapping[str, Any]) -> tuple[Solver, dict[str, Any]]:
    """The method's function and the arguments that the options become."""
    if method in METHODS:
        known = METHODS[method].options
        for name, value in options.items():
            if name not in known:
                allowed = one_of(name, known) if known else "it has none"
                raise InputError(f"allocation method {method}: unknown option {name!r}; {allowed}")
            if not known[name].accepts(value):
                allowed = known[name].allowed
                raise InputError(f"allocation method {method}, option {name}: found {value!r}; allowed: {allowed}")
        return METHODS[method].load(), {known[name].parameter: value for name, value in options.items()}
    if ":" not in method:
        raise InputError(f"unknown allocation method {method!r}; {one_of(method, METHODS)}, or package.module:function")
    solver = _load(method)
    try:
        inspect.signature(solver).bind(None, **options)
    except TypeError as error:
        raise InputError(f"allocation method {method} does not take the options {dict(options)!r}: {error}") from None
    return solver, dict(options)


def _load(target: str) -> Solver:
    """Import ``"package.module:function"``."""
    module, _, name = target.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"allocation method {target!r} can't be imported: {error}") from None
    if not callable(found):
        raise InputError(f"allocation method {target!r} is not a function")
    return found  # type: ignore[no-any-return]
