"""Numerical limits of the methods: values that floating point cannot work with, and roots to the last digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np

from netsim.allocation.plan import Infeasible, Plan
from netsim.allocation.problem import Problem
from netsim.base.errors import InputError

FAULTS = (ArithmeticError, ValueError, RuntimeError)     # a root that does not exist, or does not converge
SPREAD = ("bits", "cycles", "gain", "power_w", "budget_j", "cpu_min_hz", "cpu_max_hz")
Options = ParamSpec("Options")
Answer = TypeVar("Answer")
Solve = Callable[Concatenate[Problem, Options], Answer]


def within_floats(solve: Solve[Options, Answer]) -> Solve[Options, Answer]:
    """Wrap a method so that values beyond floating point raise InputError: no warnings, no NaN in a plan."""

    @wraps(solve)
    def checked(problem: Problem, /, *args: Options.args, **options: Options.kwargs) -> Answer:
        with np.errstate(all="ignore"):
            try:
                answer = solve(problem, *args, **options)
            except FAULTS as error:
                raise error if isinstance(error, (Infeasible, InputError)) else beyond(problem, str(error)) from None
        if isinstance(answer, Plan) and not (math.isfinite(answer.round_s) and math.isfinite(answer.energy_j)):
            raise beyond(problem, f"a round of {answer.round_s} s, {answer.energy_j} J")
        return answer

    return checked


def beyond(problem: Problem, why: str) -> InputError:
    """Return the error for values too many orders of magnitude apart for a plan in floating point."""
    spread = ((name, getattr(problem, name)) for name in SPREAD)
    ranges = ", ".join(f"{name} {array.min():.3g} to {array.max():.3g}" for name, array in spread)
    return InputError("too-large", "problem",
                      f"bandwidth_hz {problem.bandwidth_hz:.3g}, noise_w_per_hz {problem.noise_w_per_hz:.3g}, {ranges}",
                      "values near enough to each other for a plan that floating point can hold",
                      f"They lead to: {why}")


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of a function with unlike signs at its ends, to the last digits."""
    from scipy.optimize import brentq  # scipy takes its time to load

    return float(brentq(function, low, high, xtol=math.ulp(0.0), rtol=1e-15, maxiter=2000))


def first_not_positive(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the least x in [low, high] with function(x) <= 0, to the last digits and on that side of the root.

    The function decreases; it may be infinite near ``low``. If rounding puts ``high`` on the wrong side, x is slightly
    larger than it.
    """
    ends: dict[float, float] = {}                     # evaluated once: the last digit may differ between calls

    def bounded(x: float) -> float:
        return ends[x] if x in ends else min(function(x), 1e300)      # the root finder takes no infinities

    ends[low] = bounded(low)
    if ends[low] <= 0.0:
        return low
    x, step = high, 1e-15
    ends[high] = bounded(high)
    if ends[high] < 0.0:
        x = root(bounded, low, high)
    while function(x) > 0.0:
        if math.isinf(x):
            raise ArithmeticError("no value is large enough")
        x, step = x * (1.0 + step), 2.0 * step
    return x
