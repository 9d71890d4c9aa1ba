"""Where a function meets zero; of a falling one also on the side where a constraint holds."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with unlike signs at its ends meets zero, to the last digits."""
    return float(brentq(function, low, high, xtol=math.ulp(0.0), rtol=1e-15, maxiter=2000))


def first_not_positive(function: Callable[[float], float], low: float, high: float) -> float:
    """The least x in [low, high] with function(x) <= 0, to the last digits and on that side of the root.

    The function falls; it may be infinite near ``low``. Where rounding puts ``high`` on the wrong side, x goes just
    beyond it.
    """
    ends: dict[float, float] = {}                     # asked once: a function may differ in the last digit each time

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
