"""Why a device's process is interrupted, and what becomes of its job: the causes of ``simpy.Interrupt``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Policy = Literal["pause", "restart", "abort"]


@dataclass(frozen=True)
class Interruption:
    """A reason, as the trace names it, and a policy.

    ``pause`` continues the work when the device is back, ``restart`` repeats it from the start, and ``abort`` ends the
    job with the reason as its outcome. Energy already spent stays spent.
    """

    reason: str
    policy: Policy = "abort"
