"""What changes in time, whoever looks."""

from __future__ import annotations

from typing import Any

from netsim.base.errors import InputError
from netsim.base.registry import Entry, Registry


def _check(name: str, found: Any) -> None:
    if not (isinstance(found, type) and hasattr(found, "gain") and hasattr(found, "changes")):
        raise InputError(f'cell.channel: "{name}" is no channel: a class with "changes" and gain(round)')


CHANNELS = Registry("channel", "cell.channel", {
    "by round": Entry("netsim.world.channel:Channel", "path loss and shadowing, with fading or as recorded by round"),
}, given=3, check=_check)
