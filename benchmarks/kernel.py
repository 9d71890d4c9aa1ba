"""What a round costs beside the events themselves: python benchmarks/kernel.py [--before DIR].

A bare SimPy loop, in which the same S devices do two timeouts each under ``all_of``, is the yardstick: nothing that
plays a round event by event can be faster. All times are CPU seconds, the best of three, taken in turns, so that every
contender meets the same load. The cost of a round is that of a long run less that of a short one, shared among the
rounds between: start-up, drawing the population and opening files do not count, writing the trace does.

The scenario: the paper's cell without learning, 2 MHz for each device of the cohort, budgets that always fit, mains
batteries, no fading, random cohorts (``fedavg``) from the first round on, optimal plans (``sao``).

``--before DIR`` measures another checkout (with its own DIR/.venv) beside this one, in a process of its own, and also
rounds in which the band is shared in time or the channel fades. ``--shared`` measures those without another checkout.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

REPEATS = 3
BARE_RUNS = 10        # the bare loop is so short that it is played longer
SCENARIO = """
[cell]
radius = "300 m"
bandwidth = "{band_mhz} MHz"

[[population]]
name = "phone"
count = {devices}
cpu = {{ min = "0.2 GHz", max = "2 GHz", cycles_per_sample = {{ dist = "uniform", low = 1e4, high = 3e4 }} }}
radio = {{ power = "23 dBm" }}
budget = {{ dist = "uniform", low = "40 mJ", high = "80 mJ" }}
samples = 500

[learning]
bits = "448 kbit"
local_iterations = 10

[selection]
method = "fedavg"
cohort = {cohort}

[allocation]
method = "sao"

[rounds]
first = "cohort"

[end]
rounds = {rounds}
"""


@dataclass(frozen=True)
class Size:
    """A cohort out of a population, and how many rounds a short and a long run have."""

    cohort: int
    devices: int
    short: int
    long: int

    def __str__(self) -> str:
        return f"S = {self.cohort:,}, N = {self.devices:,}"


LARGE, MIDDLE, SMALL, CROWD = (
    Size(1000, 10_000, 2, 32), Size(100, 1000, 10, 210), Size(10, 100, 50, 1050), Size(10, 100_000, 10, 110))
SIZES = (LARGE, MIDDLE, SMALL, CROWD)
MILLION = Size(10_000, 1_000_000, 0, 10)
FADING = 'cell.fading={model="rayleigh",coherence="20 ms"}'
CROWDED = ["cell.bandwidth=40 MHz", "population.phone.budget=20 J"]      # some 500 devices on the air at a time
SHARED = {      # rounds that take longer than their events: what is changed, the size, and what to reach
    "equal": ([*CROWDED, "allocation.sharing=equal"], Size(1000, 10_000, 1, 2), "at most 0.2 of before"),
    "adaptive": ([*CROWDED, "allocation.sharing=adaptive"], Size(1000, 10_000, 1, 2), "at most 0.2 of before"),
    "planned, fading of 20 ms": ([FADING], Size(10, 100, 20, 120), "at most 1.5 of before"),
}


def main() -> None:
    """Measure, and print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--before", metavar="DIR", type=Path, help="another checkout, with a .venv of its own")
    parser.add_argument("--repeats", metavar="N", type=int, default=REPEATS, help="the best of N (default: 3)")
    parser.add_argument("--no-million", action="store_true", help="leave out the run of a million devices")
    parser.add_argument("--shared", action="store_true", help="measure shared bands and fading, too")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work()
        return
    pythons = {"now": Path(sys.executable)}
    if given.before:
        pythons["before"] = given.before.absolute() / ".venv" / "bin" / "python"
    rounds = cost_of_rounds(pythons, given.repeats)
    whole = {} if given.no_million else millions(pythons, given.repeats)
    show(rounds, whole, list(pythons))
    if given.shared or given.before:
        show_shared(shared_rounds(pythons, given.repeats), list(pythons))


# ---- measuring ----

Costs = dict[tuple[str, Size, str], float]          # (contender, size, "netsim" or "bare") -> CPU seconds of a round


def cost_of_rounds(pythons: dict[str, Path], repeats: int) -> Costs:
    """The cost of a round: every contender and the bare loop in turns, the best of each, long less short."""
    best: dict[tuple[str, Size, str, int], float] = {}
    workers = {name: Worker(python) for name, python in pythons.items()}
    try:
        for turn in range(repeats):
            for size in SIZES:
                print(f"turn {turn + 1}, {size}", file=sys.stderr)
                for rounds in (size.short, size.long):
                    for name, worker in workers.items():
                        for what in ("netsim", "bare"):
                            took = worker.ask(what=what, size=asdict(size), rounds=rounds)["cpu_s"]
                            key = (name, size, what, rounds)
                            best[key] = min(took, best.get(key, math.inf))
    finally:
        for worker in workers.values():
            worker.end()
    return {(name, size, what): (best[name, size, what, size.long] - best[name, size, what, size.short])
            / (size.long - size.short) for name, size, what, _ in best}


def shared_rounds(pythons: dict[str, Path], repeats: int) -> dict[tuple[str, str], float]:
    """CPU seconds of a round in which the band is shared or the channel fades: (contender, what) -> seconds."""
    best: dict[tuple[str, str, int], float] = {}
    workers = {name: Worker(python) for name, python in pythons.items()}
    try:
        for turn in range(repeats):
            for what, (changes, size, _) in SHARED.items():
                print(f"turn {turn + 1}, {what}, {size}", file=sys.stderr)
                for rounds in (size.short, size.long):
                    for name, worker in workers.items():
                        took = worker.ask(what="netsim", size=asdict(size), rounds=rounds, changes=changes)["cpu_s"]
                        best[name, what, rounds] = min(took, best.get((name, what, rounds), math.inf))
    finally:
        for worker in workers.values():
            worker.end()
    return {(name, what): (best[name, what, size.long] - best[name, what, size.short]) / (size.long - size.short)
            for name in pythons for what, (_, size, _) in SHARED.items()}


def millions(pythons: dict[str, Path], repeats: int) -> dict[str, dict[str, float]]:
    """A whole run of a million devices, each in a process of its own: CPU seconds and peak memory."""
    best: dict[str, dict[str, float]] = {}
    for turn in range(repeats):
        for name, python in pythons.items():
            print(f"turn {turn + 1}, {MILLION}, {name}", file=sys.stderr)
            worker = Worker(python)
            found = worker.ask(what="netsim", size=asdict(MILLION), rounds=MILLION.long)
            worker.end()
            best[name] = min(found, best.get(name, found), key=lambda answer: answer["cpu_s"])
    return best


class Worker:
    """A process with one checkout's netsim in it that measures what it is told."""

    def __init__(self, python: Path) -> None:
        self.process = subprocess.Popen(
            [python, __file__, "--worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **order: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"a worker ended with code {self.process.wait()}")
        return json.loads(answer)

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def work() -> None:
    """Answer orders until there are no more."""
    simulated(Size(2, 4, 0, 1), 1)          # imports, and what is made once
    for line in sys.stdin:
        order = json.loads(line)
        size, rounds = Size(**order["size"]), order["rounds"]
        took = simulated(size, rounds, order.get("changes", ())) if order["what"] == "netsim" else bare(size, rounds)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        print(json.dumps({"cpu_s": took, "peak_bytes": peak}), flush=True)


def simulated(size: Size, rounds: int, changes: Sequence[str] = ()) -> float:
    """CPU seconds of a run that leaves its folder, as every run does."""
    from netsim import load_scenario, simulate

    with TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.toml"
        file.write_text(SCENARIO.format(
            band_mhz=2 * size.cohort, devices=size.devices, cohort=size.cohort, rounds=rounds))
        scenario = load_scenario(file, list(changes))
        began = process_time()
        run = simulate(scenario, Path(folder) / "run", learning=False)
        took = process_time() - began
        if run.summary["dropped"] or run.summary["rounds"] != rounds:
            raise SystemExit(f"{size}: not every device of every round arrived, so this measures something else")
    return took


def bare(size: Size, rounds: int) -> float:
    """CPU seconds of the events alone."""
    import simpy

    dice = Random(0)
    work = [(dice.uniform(0.05, 0.1), dice.uniform(0.05, 0.1)) for _ in range(size.cohort)]
    env = simpy.Environment()

    def device(compute_s: float, upload_s: float) -> Any:
        yield env.timeout(compute_s)
        yield env.timeout(upload_s)

    def server() -> Any:
        for _ in range(BARE_RUNS * rounds):
            yield env.all_of([env.process(device(*times)) for times in work])

    began = process_time()
    env.run(env.process(server()))
    return (process_time() - began) / BARE_RUNS


# ---- showing ----

def show(costs: Costs, whole: dict[str, dict[str, float]], names: Sequence[str]) -> None:
    """A column for each contender, and the goal."""
    line("measured", [*names, "now / before"], "goal")
    for size in SIZES:
        line(f"a round, {size}", [*(milliseconds(costs[name, size, "netsim"]) for name in names),
                                  quotient(costs, size)], "")
        line("  the bare loop", [*(milliseconds(costs[name, size, "bare"]) for name in names), ""], "")
        rates = [f"{size.cohort / costs[name, size, 'netsim']:,.0f}" for name in names]
        line("  device-rounds a second", [*rates, ""], "")
        goal = {LARGE: "at least 0.42", MIDDLE: "at least 0.25", SMALL: "at least 1/16"}.get(size, "")
        line("  of the bare loop's", [*(f"{costs[name, size, 'bare'] / costs[name, size, 'netsim']:.3f}"
                                        for name in names), ""], goal)
    crowded = [f"{costs[name, CROWD, 'netsim'] / costs[name, SMALL, 'netsim']:.2f}" for name in names]
    line("a round at N = 100,000 over one at N = 100", [*crowded, ""], "at most 1.5")
    if whole:
        took = [whole[name]["cpu_s"] for name in names]
        ratio = f"{took[0] / took[1]:.2f}" if len(took) == 2 else ""
        line(f"a run, {MILLION}, 10 rounds", [*(f"{seconds:.1f} s" for seconds in took), ratio], "no more than before")
        peaks = [whole[name]["peak_bytes"] for name in names]
        ratio = f"{peaks[0] / peaks[1]:.2f}" if len(peaks) == 2 else ""
        line("  its peak memory", [*(f"{peak / 1e9:.2f} GB" for peak in peaks), ratio], "")


def show_shared(costs: dict[tuple[str, str], float], names: Sequence[str]) -> None:
    """The same for rounds in which the band is shared or the channel fades."""
    for what, (_, size, goal) in SHARED.items():
        found = [costs[name, what] for name in names]
        ratio = f"{found[0] / found[1]:.2f}" if len(found) == 2 else ""
        line(f"a round, {what}, S = {size.cohort:,}", [*(milliseconds(each) for each in found), ratio], goal)


def quotient(costs: Costs, size: Size) -> str:
    before = costs.get(("before", size, "netsim"))
    return f"{costs['now', size, 'netsim'] / before:.2f}" if before else ""


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


def line(what: str, values: Sequence[str], goal: str) -> None:
    print(f"{what:44}{''.join(f'{value:>14}' for value in values)}   {goal}".rstrip())


if __name__ == "__main__":
    main()
