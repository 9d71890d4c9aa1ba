"""What is different in a round from the median one of its run."""

from __future__ import annotations

import polars as pl

from netsim.analysis.replay import Replays
from netsim.base import units
from netsim.base.counts import counted

FEW = 4          # devices that a sentence names
NOTABLE = 1.0    # dB: a smaller change of a gain is not worth a word


def differences(replays: Replays, number: int, device: int | None, names: dict[int, str]) -> tuple[str, ...]:
    """Sentences; ``device`` is the one that sets the pace, if there is one."""
    lengths = {each: length for each, length in replays.lengths.items() if each in replays.jobs}
    if len(lengths) < 2:
        return ()
    median = sorted(lengths, key=lambda each: (lengths[each], each))[(len(lengths) - 1) // 2]
    now, usual = lengths[number], lengths[median]
    told = [f"The median round, {median}, took {units.format(usual, 'time')}; this one {units.format(now, 'time')}."]
    if median != number:
        told += _who(replays, number, median, device, names)
    if device is not None:
        told += _presence(replays, lengths, device, names[device])
        told += _gain(replays, number, device, names[device])
    return tuple(told)


def _who(replays: Replays, number: int, median: int, device: int | None, names: dict[int, str]) -> list[str]:
    """Who is here and was not there, the device that sets the pace first."""
    here, there = (set(replays.jobs[each]["device"].to_list()) for each in (number, median))
    new, gone = sorted(here - there, key=lambda each: (each != device, each)), there - here
    if not new and not gone:
        return ["The cohort is the same."]
    if not new:
        return [f"{counted(len(gone), 'device')} fewer than then."]
    shown = ", ".join(names[device] for device in new[:FEW]) + (f" and {len(new) - FEW} more" if len(new) > FEW else "")
    return [f"This time and not then: {shown}."]


def _presence(replays: Replays, lengths: dict[int, float], device: int, name: str) -> list[str]:
    """How long rounds are with the device, and without it."""
    with_it = [lengths[each] for each in lengths if device in replays.jobs[each]["device"]]
    without = [lengths[each] for each in lengths if device not in replays.jobs[each]["device"]]
    if not without or not with_it:
        return []
    mean = [units.format(sum(some) / len(some), "time") for some in (with_it, without)]
    often = f"{len(with_it)} of {len(lengths)}"
    return [f"Rounds with {name} take {mean[0]} on average ({often}), those without {mean[1]}."]


def _gain(replays: Replays, number: int, device: int, name: str) -> list[str]:
    """Its channel this time against its usual one."""
    of_device = pl.col("device") == device
    gains = replays.run.jobs.filter(of_device)["gain"]
    usual = gains.median()
    this = float(replays.jobs[number].filter(of_device)["gain"][0])
    if not isinstance(usual, float) or usual <= 0.0:
        return []
    better = units.db(this) - units.db(usual)
    if abs(better) < NOTABLE:
        return []
    return [f"Its channel: {name}'s gain is {abs(better):.1f} dB {'above' if better > 0 else 'below'} its own median."]
