"""Relations between scenarios: what a change of a scenario must, or must not, do to its run.

A relation draws a world and a change of it, simulates both, and raises AssertionError where the relation does not hold.
It returns the number of values that it has compared, or raises InputError where the world is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import polars as pl

from campaign.grammar import Table, exact, living
from netsim import simulate
from netsim.run import Run
from netsim.scenario import Scenario

SAME = 1e-9          # relative: what rounding may do
VALUES = ("t0", "t1", "compute_s", "upload_s", "energy_j")
SCALES = {           # unit: another one, and how many of these it takes
    "MHz": ("kHz", 3), "kHz": ("Hz", 3), "GHz": ("MHz", 3), "kbit": ("bit", 3), "ms": ("us", 3), "s": ("ms", 3),
    "mJ": ("uJ", 3), "mW": ("uW", 3), "W": ("mW", 3)}
NUMBER = re.compile(r"([-+.\de]+) (\w+)")


def play(world: Table, seed: int) -> Run:
    return simulate(Scenario.of(world), None, seed, learning=False)


def round_s(run: Run) -> Any:
    return run.rounds["round_s"].to_numpy()


# What must not matter.

def shuffled(dice: Random, item: Any) -> Any:
    """The same tables and keys in another order; lists keep theirs."""
    if isinstance(item, list):
        return [shuffled(dice, each) for each in item]
    if not isinstance(item, dict):
        return item
    keys = list(item)
    dice.shuffle(keys)
    return {key: shuffled(dice, item[key]) for key in keys}


def rescaled(dice: Random, item: Any) -> Any:
    """The same quantities in other units, digit by digit."""
    if isinstance(item, list):
        return [rescaled(dice, each) for each in item]
    if isinstance(item, dict):
        return {key: rescaled(dice, each) for key, each in item.items()}
    found = NUMBER.fullmatch(item) if isinstance(item, str) else None
    if found is None or found[2] not in SCALES or dice.random() < 0.2:
        return item
    unit, digits = SCALES[found[2]]
    return f"{Decimal(found[1]).scaleb(digits):f} {unit}"


def any_world(dice: Random) -> Table:
    return living(dice) if dice.random() < 0.1 else exact(dice, static=dice.random() < 0.3)


def order_of_tables(dice: Random, seed: int) -> int:
    """Tables and keys in another order: the same digest and bytes."""
    world = any_world(dice)
    other = shuffled(dice, world)
    assert Scenario.of(world).digest == Scenario.of(other).digest, "the digests differ"
    return same_bytes(world, other, seed)


def units(dice: Random, seed: int) -> int:
    """Quantities in other units: the same bytes. The digest has options of methods and servers as they are written."""
    world = any_world(dice)
    return same_bytes(world, rescaled(dice, world), seed)


def same_bytes(world: Table, other: Table, seed: int) -> int:
    run, again = play(world, seed), play(other, seed)
    assert run.summary["trace_sha256"] == again.summary["trace_sha256"], "the traces differ"
    return run.jobs.height


def split_population(dice: Random, seed: int) -> int:
    """A population in two parts with the same devices: the same jobs."""
    world = exact(dice, static=dice.random() < 0.3)
    other = deepcopy(world)
    place = dice.randrange(len(world["population"]))
    table = other["population"][place]
    if table["count"] == 1:
        return same_jobs(play(world, seed), play(shuffled(dice, world), seed))
    cut = dice.randint(1, table["count"] - 1)
    second = {**deepcopy(table), "name": "second part", "count": table["count"] - cut}
    table["count"] = cut
    if "availability" in table:
        intervals = table["availability"]["intervals"]
        table["availability"]["intervals"], second["availability"]["intervals"] = intervals[:cut], intervals[cut:]
    other["population"].insert(place + 1, second)
    return same_jobs(play(world, seed), play(other, seed))


def same_jobs(run: Run, other: Run) -> int:
    """The same jobs, to what rounding may do."""
    one, two = run.jobs.sort("job"), other.jobs.sort("job")
    for name in ("job", "round", "version", "device", "outcome"):
        assert one[name].to_list() == two[name].to_list(), f"{name}: {one[name].to_list()}, {two[name].to_list()}"
    for name in VALUES:
        a, b = one[name].to_numpy(), two[name].to_numpy()
        assert np.allclose(a, b, rtol=SAME, atol=1e-15), f"{name}: {a.tolist()}, {b.tolist()}"
    return one.height


# What must not make a round longer.

def static_sao(dice: Random) -> Table:
    """A static cell planned by `sao`, in which every cohort has a plan."""
    world = exact(dice, static=True)
    world["allocation"] = {"method": "sao"}
    world["rounds"] = {"first": "cohort", "infeasible": "error"}
    return world


def no_longer(world: Table, other: Table, seed: int) -> int:
    """No round of the other world is longer, as planned or as played."""
    run, better = play(world, seed), play(other, seed)
    assert run.rounds.height == better.rounds.height, f"{run.rounds.height} and {better.rounds.height} rounds"
    for name, mine, others in (("played", round_s(run), round_s(better)),
                               ("planned", planned_s(run), planned_s(better))):
        assert (others <= mine * (1 + SAME)).all(), f"{name}: {others.tolist()} s, before {mine.tolist()} s"
    return run.rounds.height


def planned_s(run: Run) -> Any:
    return run.jobs.group_by("round").agg(pl.col("planned_s").max()).sort("round")["planned_s"].to_numpy()


def double_band(dice: Random, seed: int) -> int:
    """Twice the band: no `sao` round is longer."""
    world = static_sao(dice)
    other = deepcopy(world)
    other["cell"]["bandwidth"] = f"{2 * float(world['cell']['bandwidth'].split()[0])!r} kHz"
    return no_longer(world, other, seed)


def double_budgets(dice: Random, seed: int) -> int:
    """Twice the energy budgets: no `sao` round is longer."""
    world = static_sao(dice)
    other = deepcopy(world)
    for table in other["population"]:
        table["budget"] = f"{2 * float(table['budget'].split()[0])!r} mJ"
    return no_longer(world, other, seed)


def against_equal(dice: Random, seed: int) -> int:
    """No `sao` round is longer than with equal shares, wherever equal shares have a plan."""
    world = static_sao(dice)
    other = deepcopy(world)
    world["allocation"] = {"method": "equal"}
    return no_longer(world, other, seed)


def reallocated(dice: Random, seed: int) -> int:
    """The band of a `sao` plan reallocated at each start and end: no round is longer, no budget broken."""
    world = static_sao(dice)
    other = deepcopy(world)
    other["allocation"]["sharing"] = "adaptive"
    run = play(other, seed)
    over = run.jobs.filter(run.jobs["energy_j"] > run.jobs["budget_j"] * (1 + SAME))
    assert over.is_empty(), f"budgets are broken: {over.select('device', 'energy_j', 'budget_j').rows()}"
    return no_longer(world, other, seed)


RELATIONS: dict[str, Callable[[Random, int], int]] = {
    "order of tables and keys": order_of_tables, "units": units, "a population in two": split_population,
    "twice the band": double_band, "twice the budgets": double_budgets, "sao against equal": against_equal,
    "sao with adaptive sharing": reallocated}


def world_of(relation: Callable[[Random, int], int], dice: Random) -> Table:
    """The world that a relation draws first."""
    return (any_world(dice) if relation in (order_of_tables, units)
            else exact(dice, static=dice.random() < 0.3) if relation is split_population else static_sao(dice))

