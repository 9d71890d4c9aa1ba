"""What changes in time, whoever looks."""

from __future__ import annotations

from typing import Any

from netsim.base.errors import InputError
from netsim.base.registry import Entry, Registry

ASKED = ("gain", "mean", "next_change")      # see netsim.world.channel.GainTimeline


def _check(name: str, found: Any) -> None:
    if not (isinstance(found, type) and all(hasattr(found, each) for each in ("changes", *ASKED))):
        raise InputError("wrong-interface", "cell.channel", f'"{name}"', 'a class with "changes", '
                         "gain(devices, t, round), mean(devices, t, round) and next_change(t)")


CHANNELS = Registry("channel", "cell.channel", {
    "described": Entry("netsim.world.channel:Channel", "path loss, shadowing, places and fading, or as recorded"),
}, given=3, check=_check)
