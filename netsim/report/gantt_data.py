"""Data of the Gantt charts: spans of each device, the decisions of its plan, and the device that limits the round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from netsim.analysis.bottleneck import MOST_PLANS, Bottleneck, bottlenecks
from netsim.analysis.breakdown import WORK, undelivered
from netsim.analysis.device_names import device_names
from netsim.analysis.export import FACTS, job_annotations
from netsim.base.pluralize import pluralize
from netsim.report.figures import Columns, columns, left_out, sample
from netsim.run import Run
from netsim.trace.schema import DROPS, OVER

MOST_JOBS = 5000           # in all Gantt charts of a page together
MOST_ROWS = 60             # devices in one of them
MOST_LANES = 80            # devices in the timeline of the whole run
MOST_CHANGES = 5           # helpful changes of a round
FEWEST = 10                # rounds, also if they have many devices
DIGITS, FACT_DIGITS = 7, 5     # significant digits of times and of decisions


def slowest(rounds: pl.DataFrame) -> int:
    """Return the longest round; of several, the first."""
    return int(_by_length(rounds)["round"][0])


def choose_rounds(run: Run, rounds: pl.DataFrame, most_jobs: int) -> pl.DataFrame:
    """Return those of a run's rounds that fit the page: evenly spread ones, and the longest."""
    sizes = run.breakdown().shares.group_by("round").len()["len"].clip(upper_bound=MOST_ROWS)
    each = max(sizes.sum() / max(run.rounds.height, 1), 1.0)
    chosen = sample(rounds, max(FEWEST, int(most_jobs / each)))
    if chosen.height < rounds.height:
        chosen = pl.concat([chosen, _by_length(rounds).head(FEWEST)]).unique("round").sort("round")
    return chosen


def _by_length(rounds: pl.DataFrame) -> pl.DataFrame:
    return rounds.sort(["round_s", "round"], descending=[True, False])


def gantt(
    run: Run, rounds: pl.DataFrame, chosen: pl.DataFrame, notes: dict[str, str], share: float = 1.0,
) -> dict[str, Any]:
    """Return the data of rounds chosen from ``rounds``, devices with the least waiting time first.

    Adds omissions to ``notes``; ``share`` is the part of the page's replay cost to use here.
    """
    found = bottlenecks(run, _by_length(chosen)["round"].to_list(), int(share * MOST_PLANS))
    everyone, shown = _participants(run, chosen, found)
    busiest = shown.group_by("device").len().sort(["len", "device"], descending=[True, False])
    lanes = busiest.head(MOST_LANES)["device"].sort().to_list()
    rounds_left = left_out(chosen.height, rounds.height, "rounds: evenly spread ones and the ten longest")
    waited_least = f"Of a round, the {pluralize(MOST_ROWS, 'device')} that waited least."
    rows_left = waited_least if everyone > shown.height else ""
    lanes_left = left_out(len(lanes), busiest.height, "devices, those that took part most often")
    notes["gantt"] = " ".join(filter(None, (rounds_left, _outline_note(len(found), chosen.height), rows_left)))
    notes["timeline"] = " ".join(filter(None, (rounds_left, lanes_left)))
    names = device_names(run.devices)
    return {
        "slowest": slowest(rounds),
        "rounds": columns(chosen.select("round", "t0", "t1", "round_s", "arrived", "dropped", "energy_j")),
        **_spans(run, chosen, shown),
        "order": {number: part["device"].to_list() for number, part in _by_round(shown)},
        "names": dict(names.filter(pl.col("device").is_in(shown["device"].unique().to_list()))
                      .select(pl.col("device").cast(pl.String), "name").iter_rows()),
        "pace": {str(number): {"sentence": pace.sentence, "devices": pace.devices,
                               "changes": [[each.change, each.saves_s] for each in pace.helpful[:MOST_CHANGES]]}
                 for number, pace in found.items()},
        "path": _paths(run, chosen.filter(~pl.col("round").is_in(list(found)))),
        "lanes": lanes,
    }


def _outline_note(paced: int, rounds: int) -> str:
    """Explain the outline in rounds that were not planned again."""
    if paced == rounds:
        return ""
    if not paced:
        return ("The rounds of this run cannot be planned again. The outline shows the critical path, in rounds where "
                "one device finishes last.")
    return (f"The limiting device was computed for {pluralize(paced, 'round')}, the longest with a plan. In the others "
            "the outline shows the critical path, if one device finishes last.")


def _participants(run: Run, chosen: pl.DataFrame, found: dict[int, Bottleneck]) -> tuple[int, pl.DataFrame]:
    """Return the number of participants, and round and device of those that are shown.

    Preferred are devices that limit the round, then devices with the least waiting time, then devices without a plan.
    """
    took_part = run.breakdown().shares.select("round", "device", "wait_s")
    lost = undelivered(run, DROPS).select("round", "device", wait_s=pl.lit(None, pl.Float64))
    everyone = pl.concat([took_part, lost.join(took_part, on=["round", "device"], how="anti")]).join(
        chosen.select("round"), on="round", how="semi")
    named = pl.DataFrame([(number, device) for number, pace in found.items() for device in pace.devices],
                         schema={"round": pl.Int32, "device": pl.Int32}, orient="row").with_columns(named=True)
    ranked = everyone.join(named, on=["round", "device"], how="left").sort(
        "round", pl.col("named").is_null(), "wait_s", "device", nulls_last=True)
    shown = ranked.filter(pl.int_range(pl.len()).over("round") < MOST_ROWS)
    return ranked.height, shown.sort("round", "wait_s", "device", nulls_last=True).select("round", "device")


def _by_round(frame: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the rows of each round, with its number as a key of JSON."""
    for (number,), part in frame.group_by("round", maintain_order=True):
        yield str(number), part


def _spans(run: Run, chosen: pl.DataFrame, shown: pl.DataFrame) -> dict[str, Any]:
    """Return the spans of the devices, in seconds from the start of the round, and the facts of their jobs."""
    began = chosen.select("round", began="t0").lazy()
    since = ((pl.col(time) - pl.col("began")).round_sig_figs(DIGITS) for time in ("t0", "t1"))
    bars = run.collect(
        run.scan().filter((pl.col("kind") != "counter") & (pl.col("device") >= 0) & (pl.col("name") != OVER))
        .join(shown.lazy(), on=["round", "device"], how="semi").join(began, on="round").sort("seq")
        .select("round", "device", "job", "name", *since, pl.col("energy_j").round_sig_figs(FACT_DIGITS)))
    parts = bars["name"].unique(maintain_order=True).to_list()
    facts = job_annotations(run).filter(pl.col("job").is_in(bars["job"].unique().to_list()))
    numbered = bars.with_columns(
        part=pl.col("name").replace_strict(parts, range(len(parts)), return_dtype=pl.Int8)).drop("name")
    return {
        "parts": parts, "bars": {number: columns(part.drop("round")) for number, part in _by_round(numbered)},
        "facts": columns(facts.with_columns(pl.col(FACTS).round_sig_figs(FACT_DIGITS)))}


def _paths(run: Run, chosen: pl.DataFrame) -> dict[str, Columns]:
    """Return the critical path of rounds in which one device finishes last; with several, it is ambiguous."""
    alone = run.breakdown().rounds.drop_nulls("straggler").select("round", began="t0")
    steps = run.critical_path().steps.filter(pl.col("name").is_in(WORK)).join(
        alone.join(chosen, on="round", how="semi"), on="round").with_columns(
        (pl.col("t0", "t1") - pl.col("began")).round_sig_figs(DIGITS))
    return {number: columns(part.select("device", "t0", "t1")) for number, part in _by_round(steps)}
