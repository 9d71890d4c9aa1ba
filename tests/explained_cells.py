"""Cells to explain: random ones, and some with one planted bottleneck."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import polars as pl

from netsim import load_scenario, simulate
from netsim.base.errors import InputError
from netsim.run import Run

sys.path.insert(0, str(Path(__file__).parent / "before"))
from draw_scenarios import draw_scenario

SHARING = ("planned", "equal", "tdma")
BOTTLENECKS = ("clock", "budget", "channel", "band")


def random_scenario(number: int, folder: Path) -> Run | None:
    """A run of the random scenario of this number, without training; None where nobody can ever take part.

    Schedulers take turns, so that all methods meet them all.
    """
    file = folder / f"random-{number}.toml"
    file.write_text(draw_scenario(number), encoding="utf-8")
    try:
        run = simulate(load_scenario(str(file), [f"allocation.sharing={SHARING[number // 3 % 3]}"]), learning=False)
    except InputError:
        return None
    return run if run.jobs.height else None


def random_rounds(count: int, folder: Path, first: int = 0) -> Iterator[tuple[Run, int]]:
    """Random rounds of all methods and rules, from a scenario on; of methods that take their time, of few devices."""
    for number in itertools.count(first):
        run = random_scenario(number, folder)
        if run is None:
            continue
        most = 3 if run.scenario.allocation.method in ("algorithm6", "sao-common-power") else 9
        sizes = run.jobs.group_by("round").len().filter(pl.col("len") <= most).sort("round")["round"].to_list()
        for one in sizes[:: max(1, len(sizes) // 3)][:4]:
            yield run, one
            count -= 1
            if count == 0:
                return


def planted_cell(number: int, bottleneck: str) -> tuple[str, int]:
    """A cell of alike devices in which one thing, of the last device or of the cell, is scarce; and that device."""
    dice = Random(f"planted {number}")
    count = dice.randint(4, 9)
    clock, budget, gain = dice.uniform(1.5, 2.5), dice.uniform(40, 80), dice.uniform(-98, -92)
    cycles, bits = dice.uniform(1e4, 3e4), dice.choice((300, 448, 800))
    band = count * dice.uniform(2.0, 4.0)
    poor = (clock, budget, gain)
    if bottleneck == "clock":
        poor = (clock / dice.uniform(4, 8), budget, gain)
    elif bottleneck == "budget":
        poor = (clock, budget / dice.uniform(12, 20), gain)
    elif bottleneck == "channel":
        poor = (clock, budget, gain - dice.uniform(24, 30))
    else:
        band /= dice.uniform(15, 25)
    gains = [round(gain + dice.uniform(-2, 2), 2) for _ in range(count - 1)]
    return "\n".join([
        "[cell]", f'radius = "300 m"\nbandwidth = "{band:.3f} MHz"',
        _population("usual", clock, budget, gains, cycles), _population("poor", poor[0], poor[1], [poor[2]], cycles),
        f'[learning]\nbits = "{bits} kbit"', f'[selection]\nmethod = "fedavg"\ncohort = {count}', "[end]\nrounds = 2",
    ]), count - 1


def _population(name: str, clock: float, budget: float, gains: list[float], cycles: float) -> str:
    listed = ", ".join(f'"{gain:.2f} dB"' for gain in gains)
    return (f'[[population]]\nname = "{name}"\ndevices = {{ gain = [{listed}] }}\nsamples = 5000\n'
            f'cpu = {{ min = "0.05 GHz", max = "{clock:.3f} GHz", cycles_per_sample = {cycles:.0f} }}\n'
            f'radio = {{ power = "20 dBm" }}\nbudget = "{budget:.3f} mJ"')
