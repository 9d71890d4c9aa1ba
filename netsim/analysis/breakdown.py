"""Breakdown of a run: time, energy and bandwidth by round, device and part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import polars as pl

from netsim.analysis.device_names import device_names
from netsim.base import html, units
from netsim.base.errors import InputError, unknown
from netsim.base.frames import in_order
from netsim.run import ALL_PARTS, Run
from netsim.trace.overlap import held_within
from netsim.trace.schema import BOOKS, CELL, DROPS, UNDELIVERED

WORK = ("download", "compute", "throttled", "upload")      # spans in which a device spends energy
TOGETHER = 1e-3                   # devices that finish within this share of the round's time finish together


@dataclass(frozen=True, eq=False)
class Breakdown:
    """Breakdown of a run; times in s, energies in J, shares between 0 and 1.

    ``rounds``    a row per round: round, t0, t1, round_s, cohort, arrived, dropped;
                  compute_s, upload_s, wait_s: means over the devices that took part, which sum to round_s (of jobs that
                  extend over several rounds, the part within the round);
                  band_used: allocated share of bandwidth times time, idle_band_s: the rest of round_s,
                  silent_s: time without any transmission; compute_j, upload_j, energy_j;
                  straggler, straggler_name: the last device, if it is clearly last; margin_s: delay after the
                  device before (null if alone), last_together: devices within a thousandth of the round's time;
                  with a downlink download_s and download_j; with idle power or charging, of all devices
                  harvest_j (charged), idle_j (drawn when idle) and spilt_j (lost to full batteries)
    ``devices``   per device: device, name, kind, rounds, arrived, dropped; compute_s, upload_s, wait_s, compute_j,
                  upload_j, energy_j: sums over its rounds; budget_j, most_j: its largest round; battery_j (null
                  on mains), left_j: after its last job; straggler_rounds, straggler_share: of its rounds
    ``kinds``     a row per kind of devices: kind, devices, and sums of the above
    ``shares``    a row for each device that took part in a round: round, device, name, compute_s, upload_s, wait_s,
                  round_s, compute_j, upload_j, energy_j, budget_j, outcome ("arrived" or why it dropped out);
                  jobs that reach from one round into the next count whole, where they ended
    """

    rounds: pl.DataFrame
    devices: pl.DataFrame
    shares: pl.DataFrame
    bandwidth_hz: float

    def _repr_html_(self) -> str:
        columns = ["round", "arrived", "round_s", "compute_s", "upload_s", "wait_s", "energy_j", "straggler_name"]
        return html.listing("the run as a whole", self.totals) + html.table(
            "rounds", columns, self.rounds.select(columns).rows())

    @property
    def parts(self) -> tuple[str, ...]:
        """Parts of a device's time, such as "compute" and "upload"."""
        return tuple(part for part in ALL_PARTS if f"{part}_s" in self.rounds.columns)

    @property
    def totals(self) -> dict[str, float]:
        """Sums over the run; the parts of the time sum to ``makespan_s``."""
        more = ("download_s", "download_j", *(f"{name}_j" for name in BOOKS))
        summed = ("compute_s", "upload_s", "wait_s", "idle_band_s", "silent_s", "compute_j", "upload_j", "energy_j",
                  *(name for name in more if name in self.rounds.columns))
        makespan_s = float(self.rounds["t1"][-1]) - float(self.rounds["t0"][0])
        sums = {name: math.fsum(self.rounds[name]) for name in summed}
        used = 1.0 - sums["idle_band_s"] / makespan_s if makespan_s else 0.0
        return {"rounds": self.rounds.height, "makespan_s": makespan_s, **sums, "band_used": used,
                "dropped": int(self.rounds["dropped"].sum())}

    def round(self, number: int) -> pl.DataFrame:
        return self.only(round=number)

    def device(self, number: int | str) -> pl.DataFrame:
        """Return the rounds of one device, by its number or its name."""
        return self.only(device=number)

    @property
    def kinds(self) -> pl.DataFrame:
        """A row per kind of devices: kind, devices, and sums of the columns of ``devices``."""
        summed = [name for name in self.devices.columns if name.removesuffix("_s") in self.parts or name in (
            "rounds", "arrived", "dropped", "straggler_rounds", "energy_j", *(f"{part}_j" for part in self.parts))]
        return self.devices.group_by("kind", maintain_order=True).agg(
            pl.len().cast(pl.Int64).alias("devices"), in_order(pl.col(summed)))

    def only(
        self, round: int | None = None, device: int | str | None = None, kind: str | None = None,
    ) -> pl.DataFrame:
        """Return the rows of ``shares`` of a round, a device, a kind of devices, or their intersection."""
        shares = self.shares
        number = self._number(device) if isinstance(device, str) else device
        for what, wanted, there in (("round", round, self.rounds), ("device", number, self.devices)):
            if wanted is None:
                continue
            if wanted not in there[what]:
                first, last = there[what][0], there[what][-1]
                raise InputError("out-of-range", what, str(wanted), f"{first} to {last}")
            shares = shares.filter(pl.col(what) == wanted)
        if kind is not None:
            of_kind = self.devices.filter(pl.col("kind") == kind)["device"]
            if of_kind.is_empty():
                raise unknown("kind", kind, set(self.devices["kind"]))
            shares = shares.filter(pl.col("device").is_in(of_kind.implode()))
        return shares.sort("round", "wait_s", "device")

    def _number(self, name: str) -> int:
        found = self.devices.filter(pl.col("name") == name)["device"]
        if found.is_empty() and not name.isdecimal():
            near = get_close_matches(name, self.devices["name"].to_list(), n=1, cutoff=0.5)
            raise InputError("unknown-name", "device", f'"{name}"', "the number or the name of a device",
                             f'Did you mean "{near[0]}"?' if near else "")
        return int(name) if found.is_empty() else int(found[0])

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``netsim breakdown --json`` prints: all but ``shares``."""
        return {"totals": self.totals, "bandwidth_hz": self.bandwidth_hz,
                "rounds": self.rounds.to_dicts(), "devices": self.devices.to_dicts(), "kinds": self.kinds.to_dicts()}


def long_first_round(run: Run) -> str:
    """Return a sentence about a first round that takes more than half of the time of a run, else an empty text.

    By default all devices take part in it (``rounds.first``), and means over rounds say little then.
    """
    lengths, cohorts = run.rounds["round_s"].to_list(), run.rounds["cohort"].to_list()
    if len(lengths) < 2 or lengths[0] <= sum(lengths) / 2 or cohorts[0] <= max(cohorts[1:]):
        return ""
    others = units.duration(sum(lengths[1:]) / (len(lengths) - 1))
    return (f"{units.duration(lengths[0])} of {units.duration(sum(lengths))}, because all {cohorts[0]} devices take "
            f"part in it; a later round takes {others} on average")


def break_down(run: Run) -> Breakdown:
    if not run.last_round:
        raise InputError("empty", str(run.path), hint="No round is complete yet, so there is nothing to show")
    rounds = run.rounds
    names = device_names(run.devices)
    bandwidth_hz = run.scenario.cell.bandwidth
    played = _played(run)
    shares = _shares(run, played, rounds, names)
    rounds = rounds.drop("energy_j", "accuracy", "loss")
    energy = shares.group_by("round", maintain_order=True).agg(in_order(pl.col("^.*_j$").exclude("budget_j")))
    for more in (_band(run, rounds, bandwidth_hz), energy, _stragglers(played, rounds, names), _books(run, rounds)):
        rounds = rounds.join(more, on="round", how="left", maintain_order="left")
    rounds = rounds.with_columns(
        pl.col(energy.columns[1:]).fill_null(0.0), pl.col("last_together").fill_null(0))
    return Breakdown(rounds, _devices(run, rounds, shares, names), shares, bandwidth_hz)


def _played(run: Run) -> pl.DataFrame:
    """Return time and energy of each device in each round in which it took part, and when its work ended."""
    name, length = pl.col("name"), pl.col("t1") - pl.col("t0")
    return run.collect(
        run.scan().filter((pl.col("kind") == "span") & (pl.col("device") >= 0))
        .group_by("round", "device", maintain_order=True).agg(
            *(in_order(length.filter(name.is_in(ALL_PARTS[part]))).alias(f"{part}_s") for part in run.parts),
            *(in_order(pl.col("energy_j").filter(name.is_in(ALL_PARTS[part]))).alias(f"{part}_j")
              for part in spends(run)),
            in_order(pl.col("energy_j")), ended=pl.col("t1").filter(name.is_in(WORK)).max()))


def _shares(run: Run, played: pl.DataFrame, rounds: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Return what each device did in each round, with its name, its budget and the outcome."""
    budgets = names.join(run.devices.select(pl.col("device").cast(pl.Int32), "budget_j"), on="device")
    return (
        played
        .join(rounds.select("round", "round_s"), on="round")
        .join(budgets, on="device", how="left")
        .join(undelivered(run, UNDELIVERED), on=["round", "device"], how="left")
        .sort("round", "device", "outcome", nulls_last=True)
        .select("round", "device", "name", *(f"{part}_s" for part in run.parts), "round_s",
                *(f"{part}_j" for part in spends(run)), "energy_j", "budget_j", pl.col("outcome").fill_null("arrived"))
    )


def spends(run: Run) -> tuple[str, ...]:
    """Return the parts of a device's time in which it spends energy."""
    return tuple(part for part in run.parts if part != "wait")


def counters(run: Run, *names: str) -> pl.DataFrame:
    """Return the values of these counters: round, name, device, t0, value."""
    return run.collect(
        run.scan().filter((pl.col("kind") == "counter") & pl.col("name").is_in(names))
        .select("round", "name", "device", "t0", "value"))


def undelivered(run: Run, reasons: Sequence[str]) -> pl.DataFrame:
    """Return round, device and outcome of jobs that failed for one of these reasons."""
    return run.collect(
        run.scan().filter((pl.col("kind") == "instant") & pl.col("name").is_in(reasons))
        .select("round", "device", pl.col("name").alias("outcome")))


def _band(run: Run, rounds: pl.DataFrame, bandwidth_hz: float) -> pl.DataFrame:
    """Return the allocated share of the band in each round, and the time without any transmission."""
    counter = counters(run, "bandwidth").filter(pl.col("device") == CELL)
    t, hertz = counter["t0"].to_numpy(), counter["value"].to_numpy()
    within = rounds["t0"].to_numpy(), rounds["t1"].to_numpy()
    # a value holds until the next one, also into later rounds
    used = pl.Series(held_within(t, hertz, *within))
    busy_s = pl.Series(held_within(t, (hertz > 0.0).astype(float), *within))
    round_s = pl.col("round_s")
    return rounds.select(
        "round", band_used=pl.when(round_s > 0).then(used / (bandwidth_hz * round_s)).otherwise(0.0),
        idle_band_s=round_s - used / bandwidth_hz, silent_s=round_s - busy_s)


def _books(run: Run, rounds: pl.DataFrame) -> pl.DataFrame:
    """Return per round the joules charged, drawn when idle and lost, of all batteries; no columns without them."""
    ledger = counters(run, *BOOKS).filter(pl.col("device") == CELL)
    books = rounds.select("round")
    for name in BOOKS if ledger.height else ():
        own = ledger.filter(pl.col("name") == name).select("round", pl.col("value").alias(f"{name}_j"))
        books = books.join(own, on="round", how="left", maintain_order="left").with_columns(
            pl.col(f"{name}_j").forward_fill().fill_null(0.0).diff(null_behavior="ignore").fill_null(
                pl.col(f"{name}_j").first()))
    return books


def _stragglers(played: pl.DataFrame, rounds: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Return the last device of each round and its delay after the device before; null if several finished together."""
    ordered = played.drop_nulls("ended").join(rounds.select("round", "round_s"), on="round").sort(
        ["round", "ended", "device"], descending=[False, True, False])
    last = pl.col("ended").first()
    near = (last - pl.col("ended")) <= TOGETHER * pl.col("round_s")
    found = ordered.group_by("round", maintain_order=True).agg(
        pl.col("device").first().alias("straggler"), near.sum().cast(pl.Int64).alias("last_together"),
        (last - pl.col("ended").shift(-1).first()).alias("margin_s"))
    named = names.select(pl.col("device").alias("straggler"), pl.col("name").alias("straggler_name"))
    return found.with_columns(pl.when(pl.col("last_together") == 1).then(pl.col("straggler"))).join(
        named, on="straggler", how="left").select("round", "straggler", "straggler_name", "margin_s", "last_together")


def _batteries(run: Run) -> pl.DataFrame:
    """Return kind, budget, battery (null on mains) and the level after the last job of each device that had one."""
    left = counters(run, "battery").group_by("device", maintain_order=True).agg(left_j=pl.col("value").last())
    drawn = run.devices.select(
        pl.col("device").cast(pl.Int32), "kind", "budget_j",
        battery_j=pl.when(pl.col("battery_j").is_finite()).then(pl.col("battery_j")))
    return drawn.join(left, on="device", how="left")


def _devices(run: Run, rounds: pl.DataFrame, shares: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Return the totals of each device of the population over the run."""
    summed = [*(f"{part}_s" for part in run.parts), *(f"{part}_j" for part in spends(run)), "energy_j"]
    did = shares.group_by("device", maintain_order=True).agg(
        pl.len().alias("rounds"), (pl.col("outcome") == "arrived").sum().alias("arrived"),
        in_order(pl.col(summed)), pl.col("energy_j").max().alias("most_j"))
    if not run.in_rounds:      # a device may deliver more than once in a round
        jobs = run.jobs.filter(pl.col("outcome") == "arrived").group_by("device").agg(pl.len().alias("arrived"))
        did = did.drop("arrived").join(jobs, on="device", how="left")
    dropped = undelivered(run, DROPS).group_by("device").agg(pl.len().alias("dropped"))
    slow = rounds.drop_nulls("straggler").group_by(device="straggler").agg(pl.len().alias("straggler_rounds"))
    counts = ["rounds", "arrived", "dropped", "straggler_rounds"]
    found = names
    for more in (_batteries(run), did, dropped, slow):
        found = found.join(more, on="device", how="left")
    return (
        found
        .with_columns(pl.col(counts).fill_null(0).cast(pl.Int64), pl.col([*summed, "most_j"]).fill_null(0.0),
                      pl.col("left_j").fill_null(pl.col("battery_j")))
        .with_columns(straggler_share=pl.when(pl.col("rounds") > 0)
                      .then(pl.col("straggler_rounds") / pl.col("rounds")).otherwise(0.0))
        .sort("device")
        .select("device", "name", "kind", "rounds", "arrived", "dropped", *summed, "budget_j", "most_j", "battery_j",
                "left_j", "straggler_rounds", "straggler_share")
    )
