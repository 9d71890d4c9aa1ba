"""Data of the page that compares runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

import polars as pl

from netsim.base import units
from netsim.base.errors import InputError
from netsim.base.files import MEGABYTE, read_toml
from netsim.base.tolerances import SHOWN_POINTS, SHOWN_RATIO
from netsim.report.figures import columns, left_out, sample
from netsim.report.gantt_data import MOST_JOBS, choose_rounds, gantt, slowest
from netsim.report.run_data import MOST_POINTS, MOST_ROUNDS, accuracy, staleness
from netsim.run import ALL_PARTS, Run

MOST_GANTTS = 4         # runs whose rounds stand side by side
SCENARIO, MOST_BYTES = "scenario.toml", 500 * MEGABYTE
LONGEST = 80            # characters of a value
MOST_KEYS = 200         # changed keys that a page lists
NOT_SET = "not set"
PROSE = ("name", "description")     # keys without an effect on results


def comparison_data(runs: Sequence[Run], labels: list[str]) -> dict[str, Any]:
    longest = max(run.last_round for run in runs)
    changed = changed_keys(runs)
    notes = {
        "times": left_out(min(longest, MOST_ROUNDS), longest, "rounds, evenly spread"),
        "changed": left_out(min(len(changed), MOST_KEYS), len(changed), "changed keys"),
        "world": "" if _same_environment(runs) else
        "The devices or seeds of these runs differ, so the differences below are not caused by the methods alone.",
    }
    shown = [one(run, label) for run, label in zip(runs, labels, strict=True)]
    return {
        "runs": shown,
        "changed": [[key, *values] for key, values in changed[:MOST_KEYS]],
        "numbers": numbers(shown),
        "gantts": gantts(runs, labels, notes),
        "notes": {name: note for name, note in notes.items() if note},
    }


def one(run: Run, label: str) -> dict[str, Any]:
    breakdown = run.breakdown()
    rounds = sample(breakdown.rounds.with_columns(
        spent_j=pl.col("energy_j").cum_sum(), updates=pl.col("arrived").cum_sum()), MOST_ROUNDS)
    evaluated = sample(run.rounds.drop_nulls("accuracy"), MOST_POINTS)
    return {
        "label": label,
        "selection": run.app or run.scenario.selection.method,
        "allocation": run.scenario.allocation.method,
        "server": run.scenario.server.kind if run.scenario.server else "synchronous",
        "updates": int(breakdown.rounds["arrived"].sum()),
        "staleness": staleness(run).get("mean", 0.0),
        "totals": breakdown.totals,
        "rounds": columns(rounds.select("round", "t1", "round_s", "energy_j", "spent_j", "updates", "band_used")),
        "accuracy": accuracy(run),
        "best": max(evaluated["accuracy"], default=None),
        "last": None if evaluated.is_empty() else evaluated["accuracy"][-1],
    }


Value = Callable[[dict[str, Any]], Any]      # of the data of one run


def _total(name: str) -> Value:
    return lambda run: run["totals"][name]


def _mean(name: str) -> Value:
    return lambda run: run["totals"][name] / run["totals"]["rounds"] if name in run["totals"] else None


NUMBERS: tuple[tuple[str, str, Value], ...] = (      # name and kind of each row of the table
    ("selection", "", itemgetter("selection")), ("allocation", "", itemgetter("allocation")),
    ("server", "", itemgetter("server")), ("aggregated updates", "count", itemgetter("updates")),
    ("updates per second", "rate", lambda run: _over(run["updates"], run["totals"]["makespan_s"])),
    ("energy per update", "energy", lambda run: _over(run["totals"]["energy_j"], run["updates"])),
    ("mean staleness", "rate", itemgetter("staleness")),
    ("rounds", "count", _total("rounds")), ("simulated time", "time", _total("makespan_s")),
    ("mean round time", "time", _mean("makespan_s")), ("energy", "energy", _total("energy_j")),
    ("energy per round", "energy", _mean("energy_j")), ("final accuracy", "share", itemgetter("last")),
    ("best accuracy", "share", itemgetter("best")),
    *((part, "time", _mean(f"{part}_s")) for part in ALL_PARTS),
    ("band in use", "share", _total("band_used")), ("dropped out", "count", _total("dropped")),
)


def numbers(shown: list[dict[str, Any]]) -> list[list[str]]:
    """Return a table of texts: the figures of each run, and the difference of each later run from the first."""
    table = []
    for name, kind, value in NUMBERS:
        values = [value(run) for run in shown]
        if all(each is None for each in values) or (name == "mean staleness" and not any(values)):
            continue
        cells = [_text(values[0], kind)]
        for each in values[1:]:
            cells += [_text(each, kind), _difference(values[0], each, kind)]
        table.append([name, *cells])
    return table


def _over(amount: float, whole: float) -> float | None:
    return amount / whole if whole else None


def _text(value: Any, kind: str) -> str:
    if value is None:
        return ""
    if kind == "rate":
        return f"{value:.3g}"
    if kind == "share":
        return f"{value:.2%}"
    return units.format(value, kind) if kind in ("time", "energy") else f"{value:,}" if kind else str(value)


def _difference(first: Any, other: Any, kind: str) -> str:
    """Return the difference from the first run: in per cent, of shares in points, of counts as a number."""
    if not kind or first is None or other is None:
        return "" if kind or first == other else "differs"
    if kind == "share":
        return f"{100 * (other - first):+.2f} points" if abs(other - first) > SHOWN_POINTS else "="
    if kind == "count":
        return f"{other - first:+,}" if other != first else "="
    if not first:
        return f"+{_text(other, kind)}" if other else "="
    return f"{100 * (other / first - 1):+.1f} %" if abs(other / first - 1) > SHOWN_RATIO else "="


def gantts(runs: Sequence[Run], labels: list[str], notes: dict[str, str]) -> list[dict[str, Any]]:
    """Return the Gantt charts of the same rounds of the first few runs, for rounds that all of them have."""
    shown = runs[:MOST_GANTTS]
    last = min(run.last_round for run in shown)
    common = [run.rounds.filter(pl.col("round") <= last) for run in shown]
    fits = min((choose_rounds(run, rounds, MOST_JOBS // len(shown)) for run, rounds in zip(shown, common, strict=True)),
               key=lambda chosen: chosen.height)
    picked = {*fits["round"], *map(slowest, common)}
    sentences = [left_out(len(shown), len(runs), "runs, the first ones"),
            f"Only rounds that all of them have, 1 to {last:,}." if last < max(run.last_round for run in shown) else ""]
    found = []
    for run, rounds, label in zip(shown, common, labels, strict=False):
        own: dict[str, str] = {}
        found.append(gantt(run, rounds, rounds.filter(pl.col("round").is_in(sorted(picked))), own, 1 / len(shown)))
        sentences.append(f"{label}: {own['gantt']}" if own["gantt"] else "")
    notes["gantts"] = " ".join(filter(None, sentences))
    return found


def _same_environment(runs: Sequence[Run]) -> bool:
    """Return True if all runs have the same seed and the same devices, with the same data if all runs learn."""
    shared = [name for name in runs[0].devices.columns if all(name in run.devices.columns for run in runs)]
    first = runs[0].devices.select(shared)
    return all(run.info["seed"] == runs[0].info["seed"] and run.devices.select(shared).equals(first) for run in runs)


def labels_of(runs: Sequence[Run]) -> list[str]:
    """Return the shortest distinct paths of the runs' folders."""
    paths = [run.path.resolve().parts for run in runs]
    deepest = max(map(len, paths))
    for depth in range(1, deepest + 1):
        labels = ["/".join(parts[-depth:]) for parts in paths]
        if len(set(labels)) == len(labels):
            return labels
    return [f"{label} ({number})" for number, label in enumerate(labels, start=1)]     # the same run more than once


def changed_keys(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """Return the keys and command-line options that differ, each with its value in every run."""
    found = [{"--seed": str(run.info["seed"]), "--no-learning": "no" if run.info.get("learning", True) else "yes",
              "app": run.app or NOT_SET,
              **dict(_flat(read_toml(run.path / SCENARIO, "a scenario", MOST_BYTES)))} for run in runs]
    keys = dict.fromkeys(key for each in found for key in each if key not in PROSE)
    rows = [(key, [each.get(key, NOT_SET) for each in found]) for key in keys]
    return [(key, [value if len(value) <= LONGEST else value[: LONGEST - 1] + "…" for value in values])
            for key, values in rows if len(set(map(_meaning, values))) > 1]


def _flat(table: dict[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield every key with its path; populations are named by their name, if it is unique."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        elif value and isinstance(value, list) and all(isinstance(each, dict) for each in value):
            called = [str(each.get("name", number)) for number, each in enumerate(value, start=1)]
            alone = Counter(called)
            for number, (name, each) in enumerate(zip(called, value, strict=True), start=1):
                yield from _flat(each, f"{above}{key}.{name if alone[name] == 1 else number}.")
        else:
            yield f"{above}{key}", value if isinstance(value, str) else json.dumps(value, default=str)


def _meaning(value: str) -> object:
    """Return the value of a text: "2 MHz" and "2000kHz" are equal."""
    for dimension in units.DIMENSIONS:
        with suppress(InputError):
            return dimension, units.parse(value, dimension)
    with suppress(ValueError):
        return float(value)
    return value
