"""Relations between scenarios of a grammar, in as many random worlds as asked: python benchmarks/metamorphic.py.

    python benchmarks/metamorphic.py --worlds 5000 --seed 30 --jobs 2 --counted metamorphic.jsonl     # resumes there
    python benchmarks/metamorphic.py --seed 30 --only 40      # one world again, with its scenario

This is the second generator of benchmarks/fuzz.py: its scenarios come from benchmarks/campaign/grammar.py and not from
shipped ones. Each world has one relation of benchmarks/campaign/relations.py, in turn, and two runs of a few devices
and rounds without learning. A world is "kept" where the relation holds, "refused" where netsim refuses the scenario
(for most, a cohort without a plan), "broken" where the relation does not hold.
"""

from __future__ import annotations

import os
import sys
from random import Random

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")

from campaign.relations import RELATIONS, world_of
from campaign.runner import Row, main, totals

from netsim.scenario.toml_text import dumps


def dice_of(seed: int, number: int) -> Random:
    return Random(f"metamorphic {seed} {number}")


def name_of(number: int) -> str:
    return list(RELATIONS)[number % len(RELATIONS)]


def check(seed: int, number: int) -> dict[str, float]:
    name = name_of(number)
    return {name: RELATIONS[name](dice_of(seed, number), number)}


def show(seed: int, number: int) -> str:
    name = name_of(number)
    return f"# {name}\n{dumps(world_of(RELATIONS[name], dice_of(seed, number)))}"


def table(rows: list[Row]) -> list[str]:
    """Worlds and compared jobs or rounds of each relation."""
    lines = ["| relation | worlds | compared |", "|---|---|---|"]
    for name in RELATIONS:
        found = totals(rows, name)
        lines.append(f"| {name} | {len(found):,} | {int(sum(found)):,} |")
    return lines


if __name__ == "__main__":
    sys.exit(main(__doc__, check, show, table, worlds=5000, seed=30))
