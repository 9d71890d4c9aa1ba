"""Laws that hold in every world, tried in as many random ones as asked: python benchmarks/invariants.py.

    python benchmarks/invariants.py --worlds 1000 --seed 17 --jobs 2 --counted invariants.jsonl     # goes on there
    python benchmarks/invariants.py --seed 17 --only 40      # one world again, with its scenario

A world is a small cell with every feature on or off by chance (benchmarks/campaign/worlds.py); it follows from the seed
and its number alone, and its run has the number as its seed. Every so many worlds train a small model, with one worker
and with two. The laws are in benchmarks/campaign/laws.py. A world ends in one of four ways:

    kept          all laws hold
    refused       the world is none that can be simulated, and a sentence says why
    broken        a law does not hold, or the simulation stopped with an exception
    too long      not done after a minute of computing

The exit code says whether none was broken or took too long.
"""

from __future__ import annotations

import os
import sys
from random import Random

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")

from campaign.laws import LAWS, OF_LEARNING, check_world
from campaign.runner import Row, main, totals
from campaign.worlds import draw_world

LEARNING = 40        # one world of so many learns


def learns(number: int) -> bool:
    return number % LEARNING == LEARNING - 1


def world(seed: int, number: int) -> str:
    return draw_world(Random(f"{seed} {number}"), learns=learns(number))


def check(seed: int, number: int) -> dict[str, float]:
    """How many things each law has looked at in one world."""
    return dict(check_world(world(seed, number), number, learns=learns(number)))


def table(rows: list[Row]) -> list[str]:
    """The counts, as they stand in docs/reliability.md."""
    lines = ["| law | worlds | looked at |", "|---|---|---|"]
    for law in (*LAWS, *OF_LEARNING):
        found = totals(rows, law)
        lines.append(f"| {law} | {len(found):,} | {int(sum(found)):,} |")
    return lines


if __name__ == "__main__":
    sys.exit(main(__doc__, check, world, table))
