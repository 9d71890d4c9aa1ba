"""What a world costs that changes all the time: python benchmarks/changes.py.

A run without learning, in which ten devices of N take part in each round, while all channels fade anew after every
coherence time, or all devices are at another place. CPU milliseconds a round, the least of three, taken in turns: those
of a long run less those of a short one, shared among the rounds between, so that start-up does not count.

``sending`` is a cell in which uploads fill most of a round: what it costs has to grow with the changes that
transmissions meet. ``computing`` is one with uploads of a moment: changes without a transmission must cost nothing,
however many. In both, devices that do not take part must not matter.
"""

from __future__ import annotations

import sys
from itertools import product
from time import process_time

from netsim import load_scenario, simulate
from netsim.run import Run

REPEATS, SHORT, LONG = 3, 4, 16
EVERY = ("never", "100 ms", "10 ms", "1 ms", "0.1 ms")
SIZES = (100, 10_000)
KINDS = {"sending": ["learning.bits=2Mbit", "learning.local_iterations=1"],
         "computing": ["learning.bits=1kbit", "learning.local_iterations=40"]}
WHAT = {"fading": 'cell.fading={{model="rician",k="9 dB",coherence="{every}"}}',
        "places": 'population.phone.mobility={{model="random-waypoint",speed="1.5 m/s",every="{every}"}}'}
BASE = ["selection.method=fedavg", "selection.cohort=10", "rounds.first=cohort", "population.phone.battery=mains",
        "population.phone.budget=5J", "cell.shadowing=0dB", "allocation.method=equal", "allocation.channel=mean"]
Case = tuple[str, str, int, str]      # what changes, who is at what, how many devices, how often


def play(case: Case, rounds: int) -> tuple[float, Run]:
    """CPU milliseconds of a run, and the run."""
    what, kind, size, every = case
    scenario = load_scenario("paper", [
        *BASE, *KINDS[kind], f"population.phone.count={size}", f"end.rounds={rounds}",
        *([] if every == "never" else [WHAT[what].format(every=every)])])
    began = process_time()
    run = simulate(scenario, seed=1, learning=False)
    return 1e3 * (process_time() - began), run


def changes_met(run: Run, every: str) -> float:
    """How often the world changed, a round, while somebody was on the air."""
    if every == "never":
        return 0.0
    on_air, until = 0.0, -1.0
    for t0, t1 in run.spans.filter(run.spans["name"] == "upload").sort("t0").select("t0", "t1").iter_rows():
        on_air += max(0.0, t1 - max(t0, until))
        until = max(until, t1)
    return on_air * 1e3 / float(every.removesuffix(" ms")) / run.last_round


def main() -> int:
    cases = list(product(WHAT, KINDS, SIZES, EVERY))
    least = {(case, rounds): float("inf") for case in cases for rounds in (SHORT, LONG)}
    met: dict[Case, float] = {}
    for _ in range(REPEATS):
        for case, rounds in least:
            spent, run = play(case, rounds)
            least[case, rounds] = min(least[case, rounds], spent)
            met[case] = changes_met(run, case[3])
    print(f"| what changes | most are | devices | {' | '.join(EVERY)} | µs a change, {EVERY[-2]} to {EVERY[-1]} |")
    print("|---" * (4 + len(EVERY)) + "|")
    for row in product(WHAT, KINDS, SIZES):
        cost = {every: (least[(*row, every), LONG] - least[(*row, every), SHORT]) / (LONG - SHORT) for every in EVERY}
        more = met[(*row, EVERY[-1])] - met[(*row, EVERY[-2])]
        slope = f"{1e3 * (cost[EVERY[-1]] - cost[EVERY[-2]]) / more:.0f}" if more > 100 else ""
        cells = [f"{cost[every]:.1f} ({met[(*row, every)]:.0f})" for every in EVERY]
        print(f"| {row[0]} | {row[1]} | {row[2]:,} | {' | '.join(cells)} | {slope} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
