"""Data of the page about a run; the script of the page only draws it."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from netsim.analysis.breakdown import counters
from netsim.analysis.device_names import device_names
from netsim.base.errors import InputError
from netsim.base.frames import in_order
from netsim.report.figures import Columns, columns, left_out, sample
from netsim.report.gantt_data import MOST_JOBS, choose_rounds, gantt, slowest
from netsim.run import Run
from netsim.trace.schema import ARRIVED

MOST_ROUNDS = 1000         # bars side by side
MOST_DEVICES = 1000        # points on the map, rows of a table, columns of a matrix
MOST_BARS = 150            # devices in the diagram of budgets
MOST_POINTS = 2000         # of a line over time
MOST_BATTERIES = 8
MOST_BINS = 40             # of a histogram
MOST_CLUSTERS = 1000       # counted by majority class; a method of your own may use any numbers
OF_ROUNDS = ("round", "t0", "t1", "round_s", "band_used", "energy_j", "arrived", "dropped")


def run_data(run: Run) -> dict[str, Any]:
    """Return the data of the page about one run; ``notes`` holds what each chart omits."""
    notes: dict[str, str] = {}
    path, groups, stale = run.critical_path(), cluster_numbers(run), staleness(run)
    data: dict[str, Any] = {
        "breakdown": breakdown_data(run, notes),
        "path": {"length_s": path.length_s, "advice": path.advice(), "causes": columns(path.causes.head(10)),
                 "slack": columns(path.slack.head(10))},
        "gantt": gantt(run, run.rounds, choose_rounds(run, run.rounds, MOST_JOBS), notes),
        "map": map_of_cell(run, groups, notes),
        "budgets": budgets(run, notes),
        "band": band_over_time(run, notes),
        "batteries": batteries(run, notes),
        "accuracy": accuracy(run),
        "staleness": stale,
        "delivered": delivered(run, notes) if stale else {},
        "classes": classes(run, groups, notes),
        "clusters": clusters(run, groups),
    }
    data = {name: part for name, part in data.items() if part}
    return {**data, "notes": {name: note for name, note in notes.items() if note}}


def breakdown_data(run: Run, notes: dict[str, str]) -> dict[str, Any]:
    """Return the rounds, evenly spread ones and the slowest, and the devices that used most energy."""
    breakdown = run.breakdown()
    longest = breakdown.rounds.filter(pl.col("round") == slowest(run.rounds))
    rounds = pl.concat([sample(breakdown.rounds, MOST_ROUNDS), longest]).unique("round").sort("round")
    busiest = breakdown.devices.sort("energy_j", descending=True, maintain_order=True)
    devices = busiest.head(MOST_DEVICES).sort("device")
    notes["latency"] = notes["band"] = left_out(rounds.height, breakdown.rounds.height, "rounds, evenly spread")
    notes["table"] = left_out(devices.height, breakdown.devices.height, "devices, those that used most energy")
    return {"totals": breakdown.totals, "bandwidth_hz": breakdown.bandwidth_hz, "parts": breakdown.parts,
            "rounds": columns(rounds.select(*OF_ROUNDS, *(f"{part}_s" for part in breakdown.parts))),
            "devices": columns(devices)}


def map_of_cell(run: Run, groups: pl.DataFrame, notes: dict[str, str]) -> dict[str, Any]:
    """Return positions of the devices, and the values to colour them by."""
    did = run.breakdown().devices.select("device", "name", "kind", "rounds", "energy_j", "straggler_rounds")
    place = run.devices.select(pl.col("device").cast(pl.Int32), "x_m", "y_m", gain_db=10 * pl.col("gain").log10(),
                               **({"class": pl.col("majority_class")} if "majority_class" in run.devices else {}))
    joined = did.join(place, on="device", how="left").join(groups, on="device", how="left")
    if joined["cluster"].null_count() == joined.height:
        joined = joined.drop("cluster")
    shown = sample(joined, MOST_DEVICES)
    notes["map"] = left_out(shown.height, joined.height, "devices, evenly picked")
    return {"radius_m": run.scenario.cell.radius, "devices": columns(shown)}


def cluster_numbers(run: Run) -> pl.DataFrame:
    """Return the last cluster of each device, if the selection method made clusters."""
    return counters(run, "cluster").group_by("device", maintain_order=True).agg(
        cluster=pl.col("value").last().cast(pl.Int64, strict=False))


def budgets(run: Run, notes: dict[str, str]) -> Columns:
    """Return the mean and the largest energy in J of each device in a round, and its budget."""
    took_part = run.breakdown().devices.filter(pl.col("rounds") > 0)
    shown = took_part.sort("most_j", descending=True, maintain_order=True).head(MOST_BARS).sort("device")
    notes["budgets"] = left_out(shown.height, took_part.height, "devices, those with the most expensive rounds")
    return columns(shown.select(
        "name", "budget_j", "most_j", compute_j=pl.col("compute_j") / pl.col("rounds"),
        upload_j=pl.col("upload_j") / pl.col("rounds")))


def band_over_time(run: Run, notes: dict[str, str]) -> Columns:
    """Return the bandwidth in use in Hz: every change, or means over equal windows if there are too many changes."""
    changes = counters(run, "bandwidth")
    start, end = float(run.rounds["t0"][0]), float(run.rounds["t1"][-1])
    times = np.concatenate([[start], changes["t0"].to_numpy(), [end]])
    values = np.concatenate([[0.0], changes["value"].to_numpy(), [0.0]])
    if len(times) <= MOST_POINTS:
        return {"t": times.tolist(), "hz": values.tolist()}
    area = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(times))])      # Hz times seconds until then
    edges = np.linspace(start, end, MOST_POINTS // 4 + 1)
    means = np.diff(np.interp(edges, times, area)) / np.diff(edges)
    notes["spectrum"] = f"Means over windows of {(end - start) / len(means):.3g} s."
    return {"t": edges.tolist(), "hz": [*means.tolist(), 0.0]}


def batteries(run: Run, notes: dict[str, str]) -> dict[str, Any]:
    """Return battery levels over time, for the devices that used the largest share of their battery.

    ``quantity`` is "left", a share of the capacity, or, for nearly full batteries, "taken", also a share.
    """
    left = pl.col("left_j") / pl.col("battery_j")
    powered = run.breakdown().devices.filter((pl.col("battery_j") > 0) & (pl.col("rounds") > 0)).with_columns(left=left)
    if powered.is_empty():
        return {}
    worst = powered.sort("left", maintain_order=True).head(MOST_BATTERIES)
    notes["batteries"] = left_out(worst.height, powered.height, "devices, those that used most of their battery")
    levels = counters(run, "battery")
    start, nearly_full = float(run.rounds["t0"][0]), worst["left"][0] > 0.9
    lines = []
    for device, name, full in worst.select("device", "name", "battery_j").iter_rows():
        line = sample(levels.filter(pl.col("device") == device), MOST_POINTS // MOST_BATTERIES)
        shown = [0.0, *(1.0 - line["value"] / full)] if nearly_full else [1.0, *(line["value"] / full)]
        lines.append({"name": name, "t": [start, *line["t0"]], "y": shown})
    return {"quantity": "taken" if nearly_full else "left", "lines": lines}


def accuracy(run: Run) -> dict[str, Any]:
    """Return accuracy and loss of each evaluated round, with the energy in J spent up to then."""
    spent = run.rounds.with_columns(spent_j=pl.col("energy_j").cum_sum())
    evaluated = sample(spent.drop_nulls("accuracy"), MOST_POINTS)
    if evaluated.is_empty():
        return {}
    return {"target": run.scenario.learning.target_accuracy,
            **columns(evaluated.select("round", "t1", "spent_j", "accuracy", "loss"))}


def staleness(run: Run) -> dict[str, Any]:
    """Return a histogram of the staleness of updates; empty for synchronous servers."""
    tau = run.jobs.filter(pl.col("outcome") == ARRIVED)["staleness"].to_numpy()
    most = int(tau.max(initial=0))
    if not most:
        return {}
    wide = -(-(most + 1) // MOST_BINS)
    counts = np.bincount(tau // wide)
    return {"from": (wide * np.arange(len(counts))).tolist(), "wide": wide, "count": counts.tolist(),
            "mean": float(tau.mean())}


def delivered(run: Run, notes: dict[str, str]) -> dict[str, Any]:
    """Return the number of updates of each device, the fastest first."""
    jobs = run.jobs.group_by("device", maintain_order=True).agg(
        (pl.col("outcome") == ARRIVED).sum().alias("arrived"), in_order(pl.col("planned_s")) / pl.len())
    ranked = jobs.drop_nulls("planned_s").join(device_names(run.devices), on="device", how="left").sort(
        "planned_s", "device")
    shown = sample(ranked, MOST_BARS)
    notes["delivered"] = left_out(shown.height, ranked.height, "devices, evenly picked")
    tenth = max(1, ranked.height // 10)
    fast, slow = ranked.head(tenth)["arrived"].mean(), ranked.tail(tenth)["arrived"].mean()
    return {**columns(shown.select("name", "arrived", "planned_s")), "tenth": tenth, "fast": fast, "slow": slow}


def classes(run: Run, groups: pl.DataFrame, notes: dict[str, str]) -> dict[str, Any]:
    """Return the number of samples per class of each device, sorted by cluster."""
    labels = [name for name in run.devices.columns if name.startswith("class_")]
    if not labels:
        return {}
    joined = run.devices.with_columns(pl.col("device").cast(pl.Int32)).join(groups, on="device", how="left").join(
        device_names(run.devices).rename({"name": "label"}), on="device", how="left")
    shown = sample(joined.sort("cluster", "majority_class", "device", nulls_last=True), MOST_DEVICES)
    notes["classes"] = left_out(shown.height, joined.height, "devices, evenly picked")
    return {"names": shown["label"].to_list(), "cluster": shown["cluster"].to_list(),
            "classes": [label.removeprefix("class_") for label in labels],
            "counts": [shown[label].to_list() for label in labels]}


def clusters(run: Run, groups: pl.DataFrame) -> dict[str, Any]:
    """Return the number of devices in each cluster by majority class."""
    if groups.is_empty() or "majority_class" not in run.devices.columns:
        return {}
    both = groups.filter(pl.col("cluster").is_between(0, MOST_CLUSTERS - 1)).join(
        run.devices.select(pl.col("device").cast(pl.Int32), "majority_class"), on="device")
    if both.is_empty():
        return {}
    labels = sum(name.startswith("class_") for name in run.devices.columns)
    if not both["majority_class"].is_between(0, labels - 1).all():
        raise InputError("damaged", str(run.path / "devices.parquet"), "majority classes without a column of counts")
    count = np.zeros((int(both["cluster"].max()) + 1, labels), np.int64)  # type: ignore[arg-type]
    np.add.at(count, (both["cluster"].to_numpy(), both["majority_class"].to_numpy()), 1)
    return {"count": count.tolist()}
