"""Values that floating point can hold one by one but not work with: an answer, or one sentence that says so."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec

import numpy as np

from netsim.allocation.problem import Infeasible, Plan, Problem
from netsim.base.errors import InputError

FAULTS = (ArithmeticError, ValueError, RuntimeError)     # a root that is nowhere, or does not settle
Options = ParamSpec("Options")
Solve = Callable[Concatenate[Problem, Options], Plan]


def within_floats(solve: Solve[Options]) -> Solve[Options]:
    """A method that refuses what its arithmetic cannot carry: no warnings, no NaN in a plan, no traceback."""

    @wraps(solve)
    def checked(problem: Problem, /, *args: Options.args, **options: Options.kwargs) -> Plan:
        with np.errstate(all="ignore"):                          # as `refusing`, without its price on a small plan
            try:
                plan = solve(problem, *args, **options)
            except FAULTS as error:
                raise _refusal(problem, error) from None
        if not (math.isfinite(plan.round_s) and math.isfinite(plan.energy_j)):
            raise beyond(problem, f"a round of {plan.round_s} s, {plan.energy_j} J")
        return plan

    return checked


@contextmanager
def refusing(problem: Problem) -> Iterator[None]:
    """Arithmetic without warnings whose faults are the problem's."""
    with np.errstate(all="ignore"):
        try:
            yield
        except FAULTS as error:
            raise _refusal(problem, error) from None


def _refusal(problem: Problem, error: Exception) -> Exception:
    """The problem's fault in a sentence; an answer, or a sentence of its own, stays what it is."""
    return error if isinstance(error, (Infeasible, InputError)) else beyond(problem, str(error))


def beyond(problem: Problem, why: str) -> InputError:
    """The error for values that are so far apart that a plan is lost in rounding."""
    spread = {
        "bits": problem.bits, "cycles": problem.cycles, "gain": problem.gain, "power_w": problem.power_w,
        "budget_j": problem.budget_j, "cpu_min_hz": problem.cpu_min_hz, "cpu_max_hz": problem.cpu_max_hz,
    }
    ranges = ", ".join(f"{name} {array.min():.3g} to {array.max():.3g}" for name, array in spread.items())
    return InputError("too-large", "problem",
                      f"bandwidth_hz {problem.bandwidth_hz:.3g}, noise_w_per_hz {problem.noise_w_per_hz:.3g}, {ranges}",
                      "values near enough to each other for a plan that floating point can hold",
                      f"They lead to: {why}")
