"""The simulated clock: wake-ups at exact instants, and tolerances for rounding errors of times."""

from __future__ import annotations

import math
from collections.abc import Callable

import simpy
from simpy.events import ProcessGenerator

CLOCK_ULPS = 16       # units in the last place of the clock: a smaller difference is a rounding error
SAME_END = 1e-9       # ends closer than this fraction of the time since the last allocation are simultaneous
JUST_ENOUGH = 1e-12   # energy or load that falls short by this fraction suffices


def sleep_until(env: simpy.Environment, at: float) -> ProcessGenerator:
    """Resume a process at exactly ``at`` (seconds).

    A timeout ends at ``now + (at - now)``, which may differ from ``at`` by one ulp. The sum is exact if
    ``at <= 2 now`` (Sterbenz) or if ``now`` is 0, so two timeouts always suffice.
    """
    if 0.0 < env.now < at / 2:
        yield env.timeout(0.75 * at - env.now)
    yield env.timeout(max(0.0, at - env.now))


def timeout_at(env: simpy.Environment, at: float) -> simpy.Event:
    """Return an event at exactly ``at`` (seconds): a plain timeout if that is exact."""
    now = env.now
    return env.timeout(at - now) if now <= at == now + (at - now) else env.process(sleep_until(env, at))


def call_at(env: simpy.Environment, at: float, callback: Callable[[simpy.Event], None]) -> simpy.Event:
    """Schedule ``callback`` at exactly ``at`` (seconds) and return its event."""
    event = timeout_at(env, at)
    assert event.callbacks is not None
    event.callbacks.append(callback)
    return event


def rounding_of(at: float, since: float) -> float:
    """Return the tolerance in seconds for instants that a plan sets equal, for work that started at ``since``."""
    return max((at - since) * JUST_ENOUGH, CLOCK_ULPS * math.ulp(at))


def rounding_s(now: float, since: float) -> float:
    """Return the rounding error in seconds of amounts that have decreased since the instant ``since``."""
    return CLOCK_ULPS * math.ulp(now) + SAME_END * (now - since)
