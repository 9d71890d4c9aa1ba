"""The cell against an exact reference, in as many random worlds as asked: python benchmarks/reference.py.

    python benchmarks/reference.py --worlds 500 --seed 30 --jobs 2 --counted reference.jsonl     # resumes there
    python benchmarks/reference.py --seed 30 --only 40      # one world again, with its scenario

A world is a scenario of benchmarks/campaign/grammar.py with nearly all time-varying features on at once; it follows
from the seed and its number alone. netsim and the reference (tests/reference_cell/, plain Python that steps from event
to event and shares no code with netsim's cell and servers) play it under the same seed. Every job must have the same
device, round, version, decisions, times, energy and outcome, to 1e-8: seconds, and parts of an energy (of 1 uJ at
least). Where a unit in the last place of the clock grows beyond that in the reference itself, over hundreds of jobs
that follow on each other, values may differ by twice as much; outcomes never. Where it grows beyond 1e-6, the jobs that
follow are counted and not compared. A world is "kept" where all that is compared agrees, "refused" where netsim refuses
the scenario, else "broken".
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from random import Random

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from campaign.grammar import Table, living
from campaign.runner import Row, main, totals
from reference_cell.compare import compare
from reference_cell.server import Server

from netsim import simulate
from netsim.scenario import Scenario
from netsim.scenario.toml_text import dumps


def world(seed: int, number: int) -> Table:
    return living(Random(f"reference {seed} {number}"))


def check(seed: int, number: int) -> dict[str, float]:
    """Play a world twice; raise AssertionError where the two differ."""
    scenario = Scenario.of(world(seed, number))
    run = simulate(scenario, None, number, learning=False)
    jobs, worst, found = compare(run, Server(scenario, number).run())
    assert not found, f"{len(found)} of {jobs} jobs differ: {'; '.join(found[:3])}"
    arrived = run.jobs.filter(run.jobs["outcome"] == "arrived").height
    return {"jobs": jobs, "arrived": arrived, "rounds": run.rounds.height, "deviation": worst,
            "not compared": run.jobs.height - jobs}


def table(rows: list[Row]) -> list[str]:
    counts = {name: int(sum(totals(rows, name))) for name in ("jobs", "arrived", "rounds")}
    return [*(f"{count:,} {name}" for name, count in counts.items()),
            f"{int(sum(totals(rows, 'not compared'))):,} jobs not compared, after rounding had grown beyond 1e-6",
            f"largest deviation {max(totals(rows, 'deviation'), default=0.0):.2g}"]


if __name__ == "__main__":
    sys.exit(main(__doc__, check, lambda seed, number: dumps(world(seed, number)), table, worlds=500, seed=30))
