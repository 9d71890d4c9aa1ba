"""The allocation methods by name, what can be set of each, and the call that solves a problem with one."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from netsim.allocation.problem import TOLERANCE as ROUNDING
from netsim.allocation.problem import Plan, Problem
from netsim.base import units
from netsim.base.errors import InputError, one_of
from netsim.base.registry import installed_object


@dataclass(frozen=True)
class Option:
    """A setting of a method as the user writes it, and the parameter of its function that it becomes."""

    parameter: str
    allowed: str
    accepts: Callable[[Any], bool]
    dimension: str | None = None      # of what may also be written with its unit, as in scenario files

    def read(self, value: Any) -> Any:
        """The value in SI units."""
        return units.parse(value, self.dimension) if self.dimension and isinstance(value, str) else value


@dataclass(frozen=True)
class Solver:
    """An allocation method: what it does in a line, where it lives, what can be set."""

    summary: str
    target: str                                            # "package.module:function", imported when first used
    options: Mapping[str, Option] = field(default_factory=dict)
    keeps: str | None = None                               # where the method itself says whom it keeps of a cohort


def _number(value: Any) -> bool:
    """A real number; a truth value is none, nor is NaN."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)


DEADLINE = Option("deadline", 'a time above 0, such as "300 ms"',
                  lambda value: _number(value) and 0.0 < value < math.inf, "time")
REWARD = Option("weight", 'an energy above 0, such as "1 mJ"', lambda value: _number(value) and value > 0.0, "energy")
WEIGHT = Option("weight", 'joules a second, at least 0, or "tuned"',
                lambda value: value == "tuned" or (_number(value) and 0.0 <= value < math.inf))
TOLERANCE = Option("tolerance", "a number between 0 and 1", lambda value: _number(value) and 0.0 < value < 1.0)

METHODS: dict[str, Solver] = {
    "sao": Solver("exact optimum: the shortest round that keeps every budget", "netsim.allocation.sao:solve"),
    "equal": Solver("equal bandwidth, each CPU as fast as its budget allows", "netsim.allocation.equal:solve"),
    "algorithm5": Solver("the paper's Algorithm 5 to the letter", "netsim.allocation.algorithm5:solve",
                         {"tolerance": TOLERANCE}),
    "algorithm6": Solver("the paper's Algorithm 6 to the letter: a common power", "netsim.allocation.power:algorithm6",
                         {"tolerance": TOLERANCE}),
    "sao-common-power": Solver("sao with the best power common to all", "netsim.allocation.power:common"),
    "sao-joint": Solver("exact optimum with a power for each device", "netsim.allocation.joint:solve"),
    "fedl": Solver("least total energy + lambda x round; keeps budgets only if lambda is tuned",
                   "netsim.allocation.fedl:solve", {"lambda": WEIGHT}),
    "rra": Solver("least sending energy for a deadline; leaves out devices not worth it", "netsim.allocation.rra:solve",
                  {"deadline": DEADLINE, "lambda": REWARD}, keeps="netsim.allocation.rra:kept"),
}


def allocate(problem: Problem, method: str = "sao", **options: Any) -> Plan:
    """The method's plan for the problem; raises :class:`~netsim.allocation.Infeasible` where it has none.

    ``method`` is a name in :data:`METHODS` or ``"package.module:function"`` for the user's own code: a function whose
    first parameter is called ``problem``, installed or on PYTHONPATH. It is called with the problem and the options.

    >>> from netsim.allocation import Problem, allocate
    >>> problem = Problem(bits=1e6, cycles=1e9, capacitance=1e-28, gain=[1e-10, 1e-11], power_w=0.1, budget_j=0.3,
    ...                   cpu_min_hz=1e8, cpu_max_hz=1e9, bandwidth_hz=1e6, noise_w_per_hz=4e-21)
    >>> plan = allocate(problem)
    >>> f"{plan.round_s:.4f} s", [f"{b / 1e3:.0f} kHz" for b in plan.bandwidth_hz]
    ('1.1941 s', ['410 kHz', '590 kHz'])
    """
    solver, arguments = resolve(method, options)
    plan: Plan = solver(problem, **arguments)
    if method not in METHODS:
        check_plan(plan, problem, method)
    return plan


def check_plan(plan: Any, problem: Problem, method: str) -> None:
    """Raise :class:`InputError` for an answer of the user's own method that is no plan for the problem."""
    where = f"allocation method {method}"
    if not isinstance(plan, Plan):
        raise InputError(f"{where}: answered with {type(plan).__name__}, expected a Plan, as plan_for makes it")
    for name in ("bandwidth_hz", "cpu_hz", "power_w"):
        values = np.asarray(getattr(plan, name))
        if values.shape != (len(problem),):
            raise InputError(f"{where}: {name} has shape {values.shape}, expected one value for each of {len(problem)} "
                             "devices")
        wrong = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
        if wrong.size:
            raise InputError(f"{where}: {name} of device {problem.name(wrong[0])} is {values[wrong[0]]}; allowed: "
                             "finite and above 0")
    if plan.bandwidth_used_hz > problem.bandwidth_hz * (1 + ROUNDING):
        raise InputError(f"{where}: gives away {plan.bandwidth_used_hz:g} Hz of a band of {problem.bandwidth_hz:g} Hz")


def check_method(method: str, options: Mapping[str, Any]) -> None:
    """Raise :class:`InputError` unless the method is there and takes these options."""
    resolve(method, options)


def resolve(method: str, options: Mapping[str, Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The method's function and the arguments that the options become."""
    if method in METHODS:
        known, arguments = METHODS[method].options, {}
        for name, given in options.items():
            if name not in known:
                allowed = one_of(name, known) if known else "it has none"
                raise InputError(f"allocation method {method}: unknown option {name!r}; {allowed}")
            try:
                value = known[name].read(given)
            except InputError as error:
                raise InputError(f"allocation method {method}, option {name}: {error}") from None
            if not known[name].accepts(value):
                allowed = known[name].allowed
                raise InputError(f"allocation method {method}, option {name}: found {given!r}; allowed: {allowed}")
            arguments[known[name].parameter] = value
        return load(METHODS[method].target), arguments
    if ":" not in method:
        raise InputError(f"unknown allocation method {method!r}; {one_of(method, METHODS)}, or package.module:function")
    solver = installed_object(method, "allocation method")
    try:
        parameters = inspect.signature(solver).parameters if callable(solver) else {}
    except (TypeError, ValueError):                          # built-in functions without a signature
        parameters = {}
    if next(iter(parameters), None) != "problem":            # a scenario can call nothing but allocation methods
        raise InputError(f"allocation method {method} is none: its first parameter must be called problem")
    try:
        inspect.signature(solver).bind(None, **options)
    except TypeError as error:
        raise InputError(f"allocation method {method} does not take the options {dict(options)!r}: {error}") from None
    return solver, dict(options)


def load(target: str) -> Callable[..., Any]:
    """One of our own functions, by ``"package.module:function"``."""
    module, _, name = target.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found
