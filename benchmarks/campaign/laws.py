"""What holds in every world, whatever is on in it: each law looks at one run and says how many things it has looked at.

A law that is broken raises an AssertionError that says what was found.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl

from campaign.meter import Meter, bits_sent, metered
from campaign.worlds import ALLOCATION, SELECTION, SHARING
from netsim import load_scenario, simulate
from netsim.analysis.counterfactuals import WhatIfAnalysis
from netsim.analysis.replay import RoundReplays
from netsim.environment.channel import EVERYBODY
from netsim.run import Run, load_run
from netsim.scenario import Scenario
from netsim.server.radio_cell import CellParts
from netsim.trace.schema import ARRIVED, DROPS, INFEASIBLE, LOST, OVER, TOO_LATE

CLOSE = 1e-9         # relative: what rounding may do to a sum
SOON = 1e-9          # seconds: what it may do to the clock
FILES = ("trace", "links", "jobs")


@dataclass(frozen=True, eq=False)
class PlayedWorld:
    """A world that was run: its scenario and seed, the run, what was metered in it, and the folder of its states."""

    scenario: Scenario
    seed: int
    learns: bool
    run: Run
    meter: Meter
    folder: Path

    @property
    def cell(self) -> Any:
        return self.meter.cell

    @property
    def parts(self) -> CellParts:
        assert self.meter.parts is not None
        return self.meter.parts


def close(found: float, expected: float, scale: float = 0.0) -> bool:
    return abs(found - expected) <= CLOSE * max(abs(expected), abs(scale)) + 1e-15


def play(text: str, seed: int, folder: Path, *, learns: bool = False) -> PlayedWorld:
    """The run of a world, in a folder that is kept after each round; raises InputError where the world is refused."""
    file = folder / "world.toml"
    file.write_text(text, encoding="utf-8")
    scenario = load_scenario(str(file))

    def keep(at: Any) -> None:
        shutil.copytree(folder / "run", folder / f"after-{at.round}")

    with metered() as meter:
        run = simulate(scenario, folder / "run", seed, learning=learns, workers=1, progress=keep)
    return PlayedWorld(scenario, seed, learns, run, meter, folder)


# The band and the bits.

def band(played: PlayedWorld) -> int:
    """The bandwidth in use is never above B nor below 0, and nothing of it is in use at the end."""
    used = played.run.events.filter((pl.col("kind") == "counter") & (pl.col("name") == "bandwidth"))["value"]
    whole = float(played.scenario.cell.bandwidth)
    if used.len():
        assert used.max() <= whole * (1 + CLOSE), f"{used.max()} Hz of {whole} Hz"
        assert used.min() >= -whole * CLOSE, f"{used.min()} Hz in use"
        assert abs(used[-1]) <= whole * CLOSE, f"{used[-1]} Hz in use at the end"
    return used.len()


def bits(played: PlayedWorld) -> int:
    """Bits delivered = bits sent - bits lost: who arrived has sent all of an upload once, and what was lost besides."""
    outcome = dict(played.run.jobs.select("job", "outcome").iter_rows())
    fresh = CellParts.of(played.scenario, played.seed, played.parts.population, played.parts.problems.sizes)
    noise, tries = played.scenario.cell.noise_w_per_hz, dict[int, list[Any]]()
    for trial in played.meter.tries:
        tries.setdefault(trial.job, []).append(trial)
        sent = bits_sent(trial, fresh, noise)
        # late in a long run the clock has lost the small digits of a short stretch
        slack = 1e-6 * trial.bits
        if trial.complete:
            assert abs(sent - trial.bits) <= slack, f"job {trial.job} sent {sent} of {trial.bits} bits"
        else:
            assert sent <= trial.bits + slack, f"job {trial.job} sent {sent} of {trial.bits} bits and was not done"
    for job, ended in outcome.items():
        done = [trial.complete for trial in tries.get(job, [])]
        to_its_end = done[-1:] == [True]
        if ended in (ARRIVED, LOST):
            assert to_its_end, f"job {job} ended as {ended} without its last bit"
        elif ended not in (TOO_LATE, OVER):  # such a job may finish at the instant at which it is cancelled
            assert not to_its_end, f"job {job} was sent to its end and ended as {ended}"
    return len(played.meter.tries)


# Energy.

def joules(played: PlayedWorld) -> int:
    """Every joule drawn is in the trace: by the hand of jobs, of spans, of batteries and of the summary."""
    run, jobs = played.run, played.run.jobs
    capacitance = run.devices.sort("device")["capacitance"].to_numpy()
    as_planned = played.scenario.cell.downlink is None and all(
        table.throttle is None for table in played.scenario.population)       # nothing else is drawn, at no other clock
    on_air: dict[int, float] = {}
    for trial in played.meter.tries:
        on_air[trial.job] = on_air.get(trial.job, 0.0) + trial.seconds
    spans = dict(run.spans.filter(pl.col("job") >= 0).group_by("job").agg(pl.col("energy_j").sum()).iter_rows())
    for row in jobs.iter_rows(named=True):
        job, planned = row["job"], row["outcome"] != INFEASIBLE
        seconds = on_air.get(job, 0.0)
        assert abs(seconds - row["upload_s"]) <= 1e-8 * max(1.0, row["t1"]), f"job {job}: {seconds} s on the air"
        if planned and as_planned:
            compute_w = capacitance[row["device"]] * row["cpu_hz"] ** 3
            drawn = compute_w * row["compute_s"] + row["power_w"] * row["upload_s"]
            assert abs(drawn - row["energy_j"]) <= 1e-8 * max(drawn, 1e-9), \
                f"job {job}: {row['energy_j']} J, drew {drawn}"
        assert abs(spans.get(job, 0.0) - row["energy_j"]) <= 1e-9 * max(row["energy_j"], 1e-9), \
            f"job {job}: {row['energy_j']} J, its spans {spans.get(job, 0.0)}"
    by_device = dict(jobs.group_by("device").agg(pl.col("energy_j").sum()).iter_rows())
    own_batteries, capacity = played.cell.batteries, played.parts.population.battery_j
    if not own_batteries.recharge:
        for device in np.flatnonzero(np.isfinite(capacity)).tolist():
            left, own = float(own_batteries.left_j[device]), by_device.get(device, 0.0)
            used = capacity[device] - left
            assert close(used, own, capacity[device]), f"device {device} used {used} J, its jobs {own}"
    assert close(run.summary["energy_j"], math.fsum(jobs["energy_j"])), "the summary's sum is another"
    return jobs.height


def batteries(played: PlayedWorld) -> int:
    """No battery is below zero or above its capacity."""
    capacity = played.parts.population.battery_j
    levels = played.run.events.filter(
        (pl.col("kind") == "counter") & (pl.col("name") == "battery") & (pl.col("device") >= 0))
    for device, level in levels.select("device", "value").iter_rows():
        assert 0.0 <= level <= capacity[device], f"device {device} has {level} J of {capacity[device]} J"
    own = played.cell.batteries
    left = own.level_j(slice(None))
    assert ((left >= 0.0) & (left <= capacity)).all(), f"{left} J are left of {capacity} J"
    if own.recharge:
        books = own.totals_of(np.arange(len(capacity)))
        by_jobs = dict(played.run.jobs.group_by("device").agg(pl.col("energy_j").sum()).iter_rows())
        used_j = np.array([by_jobs.get(device, 0.0) for device in range(len(capacity))])
        drawn = used_j + books["idle"] + books["spilt"]
        finite = np.isfinite(capacity)
        given = (capacity + books["harvest"])[finite]
        missing = np.abs(given - drawn[finite] - left[finite])
        assert (missing <= CLOSE * given).all(), f"{missing} J are in no book"
    return levels.height


# Time and outcomes.

def time(played: PlayedWorld) -> int:
    """Time never goes back: nothing ends before it begins, or begins before its cause; no device does two things."""
    run = played.run
    rounds, rows = run.rounds, run.events
    assert (rows["t0"] <= rows["t1"]).all(), "something ended before it began"
    assert (rounds["t0"][1:] == rounds["t1"][:-1]).all(), "rounds do not follow each other"
    slack = SOON * max(1.0, float(rounds["t1"].max() or 0.0))
    own = run.spans.filter(pl.col("device") >= 0).sort("device", "t0", "t1")
    for (device, _, end), (other, begin, _) in zip(*(
            own.select("device", "t0", "t1").rows()[shift:] for shift in (0, 1)), strict=False):
        assert device != other or begin >= end - slack, f"device {device} does two things at {begin} s"
    ends, begins = rows["t1"].to_numpy(), rows["t0"].to_numpy()
    src, dst = run.links["src"].to_numpy(), run.links["dst"].to_numpy()
    assert (src < dst).all(), "a cause is written down after its effect"
    assert (ends[src] <= begins[dst] + slack).all(), "something began before its cause had ended"
    jobs = run.jobs
    download = run.spans.filter(pl.col("name") == "download").group_by("job").agg(
        received_s=(pl.col("t1") - pl.col("t0")).sum())
    jobs = jobs.join(download, on="job", how="left").with_columns(pl.col("received_s").fill_null(0.0))
    parts = (jobs["received_s"] + jobs["compute_s"] + jobs["wait_s"] + jobs["upload_s"]
             - (jobs["t1"] - jobs["t0"])).abs()
    assert not jobs.height or parts.max() <= slack, f"the parts of a job miss its length by {parts.max()} s"
    return rows.height


def outcomes(played: PlayedWorld) -> int:
    """Every job ends in exactly one outcome, and rounds count them."""
    run, jobs = played.run, played.run.jobs
    assert jobs["job"].sort().to_list() == list(range(jobs.height)), "numbers of jobs are missing or twice there"
    assert set(jobs["outcome"]) <= {ARRIVED, OVER, *DROPS}, set(jobs["outcome"])
    ends = run.events.filter((pl.col("kind") == "instant") & pl.col("name").is_in([OVER, *DROPS]))
    assert sorted(ends.select("job", "name").rows()) == sorted(
        jobs.filter(pl.col("outcome") != ARRIVED).select("job", "outcome").rows()), "drop-outs and jobs differ"
    arrived = dict(jobs.filter(pl.col("outcome") == ARRIVED).group_by("round").len().iter_rows())
    assert all(arrived.get(number, 0) == count for number, count in run.rounds.select("round", "arrived").iter_rows())
    assert run.summary["dropped"] == ends.filter(pl.col("name") != OVER).height
    deadline = played.scenario.rounds.deadline
    if deadline is not None and jobs.height:
        assert (jobs["t1"] - jobs["t0"]).max() <= deadline * (1 + CLOSE) + SOON, "a job outlived the deadline"
    return jobs.height


def no_device_waits(played: PlayedWorld) -> int:
    """When the run is over, no device computes, sends, waits or is away with a job unfinished."""
    cell, uplink = played.cell, played.cell.uplink
    busy = [cell.running, any(each.job for each in cell.devices.values()), uplink.band.sending, uplink.band.waiting,
            uplink.arriving, uplink.in_use_hz, uplink.promised_hz]
    assert not any(busy), f"running, at work, sending, waiting, arriving, in use, promised: {busy}"
    return 1


# The same again.

def resume(played: PlayedWorld) -> int:
    """Stopped after any round, the run goes on to the same bytes."""
    last = played.run.last_round
    for number in range(1, last):
        out = played.folder / f"after-{number}"
        again = simulate(played.scenario, out, played.seed, learning=played.learns, workers=1, resume=True)
        same(played.run, again, f"stopped after round {number} of {last}")
    return last - 1


def same(run: Run, other: Run, how: str) -> None:
    """Two runs have left the same bytes."""
    for name in FILES:
        for file in sorted((run.path / name).iterdir()):
            again = other.path / name / file.name
            assert file.read_bytes() == again.read_bytes(), f"{how}: {name}/{file.name} differs"
    first, second = ({**each.summary, "run_dir": ""} for each in (run, other))
    assert repr(first) == repr(second), f"{how}: {second} instead of {first}"


def workers(played: PlayedWorld) -> int:
    """The same seed leaves the same bytes for one worker and for two."""
    two = simulate(played.scenario, played.folder / "two", played.seed, workers=2)
    same(played.run, two, "two workers")
    return played.run.last_round


def same_world(played: PlayedWorld) -> int:
    """Under other methods the same seed meets the same channel, places and faults, in whatever order they look."""
    dice = Random(played.seed)
    other = load_scenario(str(played.folder / "world.toml"), [
        f"allocation.method={dice.choice([each for each in ALLOCATION if each != 'fedl'])}",
        f"allocation.sharing={dice.choice(SHARING)}", f"selection.method={dice.choice(SELECTION)}"]
        if played.scenario.allocation.method not in ("fedl", "rra") else [f"allocation.sharing={dice.choice(SHARING)}"])
    with metered() as meter:
        simulate(other, seed=played.seed, learning=False)
    assert meter.parts is not None
    fresh = CellParts.of(played.scenario, played.seed, played.parts.population, played.parts.problems.sizes)
    end = max(played.cell.now, meter.cell.now if meter.cell else 0.0)
    looked = 0
    for t in [dice.uniform(0.0, 1.2 * end) for _ in range(12)]:
        number = dice.randint(1, 6)
        seen = [_seen(parts, t, number) for parts in (played.parts, meter.parts, fresh)]
        assert seen[0] == seen[1] == seen[2], f"at {t} s the worlds differ"
        looked += 1
    return looked


def _seen(parts: CellParts, t: float, number: int) -> list[Any]:
    """Channels, places, absences and losses, to the last bit."""
    channel, faults = parts.channel, parts.devices.faults
    places = [way.movers.places(np.arange(len(way.devices)), t) for way in getattr(channel, "ways", ())]
    devices = range(len(parts.population))
    return [channel.gain(EVERYBODY, t, number).tolist(), channel.mean(EVERYBODY, t, number).tolist(),
            channel.next_change(t), [[axis.tolist() for axis in pair] for pair in places],
            faults.available(t).tolist(), [faults.back_at(device, t) for device in devices],
            [[column.tolist() for column in supply.incoming(slice(0, size), np.full(size, t), np.ones(size, bool))]
             for supply in parts.devices.supplies for size in (supply.end - supply.first,)],
            [[faults.loses(device, upload) for upload in (0, 3, 70)] for device in devices]]


def explained(played: PlayedWorld) -> int:
    """A round of a server that waits, played again, takes as long as it took, to what rounding does to a clock."""
    if played.scenario.server is not None and played.scenario.server.kind not in ("synchronous", "first-k"):
        return 0
    if played.run.jobs.is_empty():
        return 0
    replays = RoundReplays(load_run(played.run.path))
    for number in replays.jobs:
        WhatIfAnalysis.of(replays, number).was  # noqa: B018 - playing it finds a difference
    return len(replays.jobs)


LAWS: dict[str, Callable[[PlayedWorld], int]] = {
    "bandwidth in use never above B": band, "bits delivered = bits sent - bits lost": bits,
    "every joule drawn is in the trace": joules, "no battery below zero or above capacity": batteries,
    "time never goes back": time, "every job ends in exactly one outcome": outcomes,
    "no device waits at the end": no_device_waits, "resumed after any aggregation, the same bytes": resume,
    "two methods meet the same channel, places and faults": same_world,
    "a round explained is the round": explained}
OF_LEARNING: dict[str, Callable[[PlayedWorld], int]] = {"the same bytes for 1 and 2 workers": workers}


def check_world(text: str, seed: int, *, learns: bool = False) -> dict[str, int]:
    """All laws in one world; how many things each has looked at. Raises InputError where the world is refused.

    Every round is a part of its own, after which the run can be taken up; and a job that starts over again and again is
    given up sooner than in other runs, since a world should be done in a second.
    """
    with (TemporaryDirectory(prefix="world-") as folder, patch("netsim.session.rows_a_part", lambda trains: 1),
          patch("netsim.cell.availability.MOST_RESTARTS", 20)):
        played = play(text, seed, Path(folder), learns=learns)
        return {name: law(played) for name, law in {**LAWS, **(OF_LEARNING if learns else {})}.items()}
