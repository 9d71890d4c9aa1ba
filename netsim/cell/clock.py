"""The simulated clock: waking at an exact instant, and which differences are rounding."""

from __future__ import annotations

import math
from collections.abc import Callable

import simpy
from simpy.events import ProcessGenerator

CLOCK_ULPS = 16       # units in the last place of the clock: a smaller difference is rounding
SAME_END = 1e-9       # ends closer than this part of the time since the band was divided are one end
JUST_ENOUGH = 1e-12   # energy or load that falls short by this part suffices


def sleep_until(env: simpy.Environment, at: float) -> ProcessGenerator:
    """Wake a process at exactly ``at``; the event's instant is ``now + (at - now)``, which one step may miss by an ulp.

    The sum is exact where ``at <= 2 now`` (Sterbenz) or ``now`` is 0, so two steps always arrive.
    """
    if 0.0 < env.now < at / 2:
        yield env.timeout(0.75 * at - env.now)
    yield env.timeout(max(0.0, at - env.now))


def timeout_at(env: simpy.Environment, at: float) -> simpy.Event:
    """An event at exactly ``at``: a plain timeout wherever one step arrives there."""
    now = env.now
    return env.timeout(at - now) if now <= at == now + (at - now) else env.process(sleep_until(env, at))


def call_at(env: simpy.Environment, at: float, callback: Callable[[simpy.Event], None]) -> simpy.Event:
    """Call back at exactly ``at`` with the event that was waited for."""
    event = timeout_at(env, at)
    assert event.callbacks is not None
    event.callbacks.append(callback)
    return event


def rounding_of(at: float, since: float) -> float:
    """Seconds by which instants differ that are planned to be one, for work that began at ``since``."""
    return max((at - since) * JUST_ENOUGH, CLOCK_ULPS * math.ulp(at))


def rounding_s(now: float, since: float) -> float:
    """Seconds that are rounding, for amounts that have decreased since ``since``."""
    return CLOCK_ULPS * math.ulp(now) + SAME_END * (now - since)
