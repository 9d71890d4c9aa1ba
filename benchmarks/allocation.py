"""How fast the allocation methods are: against CVXPY with Clarabel, against nested bisections, and as cohorts grow.

All ratios come from one run on the same problems: `python benchmarks/allocation.py`. Times are the best of a few
repetitions for each problem, ratios the median over problems. CVXPY's time is building and solving, as a user would.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np
from cvxpy.error import SolverError

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "allocation"))

import allocation_reference as cvxpy_model
from allocation_worlds import paper_world, with_budgets

from netsim.allocation import Plan, Problem, allocate

BIG = 1_000_000
BISECTIONS = 60


def main() -> None:
    """Measure everything and print one table."""
    warnings.filterwarnings("ignore", message="Solution may be inaccurate")       # the differences are printed
    show("measured", "value", "goal", "")
    for size, problems, goal in ((10, 10, 20.0), (1000, 3, 300.0)):
        against_cvxpy("sao", size, problems, goal, lambda p: allocate(p, "sao"), cvxpy_model.sao,
                      lambda plan: plan.round_s)
    for size, problems in ((10, 5), (1000, 1)):
        against_bisection(size, problems)
    for size, problems, goal in ((10, 10, 1.0), (1000, 3, 20.0)):
        against_cvxpy(
            "fedl", size, problems, goal, lambda p: allocate(p, "fedl", **{"lambda": 1.0}),
            lambda p: cvxpy_model.fedl(p, 1.0), lambda plan: plan.energy_j + plan.round_s)
    growth()
    million()


def world(seed: int, size: int) -> Problem:
    """A cohort of the paper's cell, 2 MHz a device, with budgets a third above the least feasible ones."""
    problem = paper_world(np.random.default_rng(seed), size)
    return with_budgets(replace(problem, gain=np.clip(problem.gain, 1e-12, 1e-9)), 4 / 3)


def best_time(call: Callable[[], object], repeats: int, clock: Callable[[], float] = perf_counter) -> float:
    """The shortest of a few runs, in seconds."""
    times = []
    for _ in range(repeats):
        began = clock()
        call()
        times.append(clock() - began)
    return min(times)


def against_cvxpy(
    name: str, size: int, problems: int, goal: float, ours: Callable[[Problem], Plan],
    theirs: Callable[[Problem], float], objective: Callable[[Plan], float],
) -> None:
    """Speed and agreement of a method with CVXPY on the same problems; those that Clarabel fails on are left out."""
    mine, other, gaps, failed = [], [], [], 0
    for seed in range(4 * problems):
        problem = world(seed, size)
        try:
            expected = theirs(problem)
            other.append(best_time(lambda p=problem: theirs(p), 3 if size < 100 else 1))
        except SolverError:
            failed += 1
            continue
        mine.append(best_time(lambda p=problem: ours(p), 7))
        gaps.append(abs(expected / objective(ours(problem)) - 1))
        if len(gaps) == problems:
            break
    ratio = float(np.median(np.array(other) / mine))
    show(f"{name}, S = {size}: {ms(np.median(mine))} against CVXPY's {ms(np.median(other))}",
         f"{ratio:.0f}x", f"{goal:.0f}x", verdict(ratio >= goal))
    left_out = f" (Clarabel failed on {failed})" if failed else ""
    show(f"{name}, S = {size}: median difference of the optimum{left_out}", f"{np.median(gaps):.1e}", "1e-06",
         verdict(np.median(gaps) <= 1e-6))


def against_bisection(size: int, problems: int) -> None:
    """Speed of `sao` against Algorithm 5 as one would first write it down."""
    ratios, rounds = [], []
    for seed in range(problems):
        problem = world(seed, size)
        slow = best_time(lambda p=problem: nested_bisections(p), 1)
        ratios.append(slow / best_time(lambda p=problem: allocate(p, "sao"), 7))
        rounds.append(nested_bisections(problem) / allocate(problem, "sao").round_s - 1)
    show(f"sao, S = {size}: against nested bisections (Algorithm 5), {ms(slow)}", f"{np.median(ratios):.0f}x", "", "")
    show(f"sao, S = {size}: how much longer Algorithm 5's round is", f"{np.median(rounds):.1e}", "", "")


class Device(NamedTuple):
    """One device in the paper's letters."""

    z: float
    U: float
    G: float
    H: float
    J: float
    e: float
    low: float
    high: float

    def frequency(self, t: float) -> float:
        """The root of the cubic (23) by bisection, clipped (Algorithm 5, lines 6 and 7)."""
        f = root(lambda f: f**3 + (self.H * t / self.z - self.e) / self.G * f - self.H * self.U / (self.z * self.G),
                 0.0, 2 * self.high)
        return min(max(f, self.low), self.high)

    def bandwidth(self, f: float, most: float) -> float:
        """The bandwidth at which the budget is used up, by bisection (lines 8 and 9)."""
        return root(lambda b: self.e - self.G * f * f - self.H / (b * math.log2(1 + self.J / b)), 1.0, most)

    def end(self, f: float, b: float) -> float:
        return self.z / (b * math.log2(1 + self.J / b)) + self.U / f


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function crosses zero, by bisection."""
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return (low + high) / 2


def nested_bisections(problem: Problem) -> float:
    """Algorithm 5 as one would first write it down: bisections for each device's f and b inside one for T."""
    columns = (problem.bits, problem.cycles, problem.compute_weight, problem.bits * problem.power_w, problem.snr_hz,
               problem.budget_j, problem.cpu_min_hz, problem.cpu_max_hz)
    devices = [Device(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    shortest = max(math.log(2) * d.z / d.J + d.U / d.high for d in devices)
    longest = 100 * shortest
    for _ in range(BISECTIONS):
        t = (shortest + longest) / 2
        speeds = [d.frequency(t) for d in devices]
        shares = [d.bandwidth(f, problem.bandwidth_hz) for d, f in zip(devices, speeds, strict=True)]
        used = sum(shares) / problem.bandwidth_hz
        if 1 - 1e-9 <= used <= 1:
            break
        shortest, longest = (t, longest) if used > 1 else (shortest, t)
    return max(d.end(f, b) for d, f, b in zip(devices, speeds, shares, strict=True))


def growth() -> None:
    """Processor time of `sao` for each device as the cohort grows with its band."""
    per_device = {}
    for size in (1_000, 10_000, 100_000):
        problem = world(0, size)
        per_device[size] = best_time(lambda p=problem: allocate(p, "sao"), 9, process_time) / size
        show(f"sao, S = {size:,}: for each device", f"{per_device[size] * 1e9:.0f} ns", "", "")
    ratio = per_device[100_000] / per_device[1_000]
    show("sao: time for a device at S = 100,000 over that at 1,000", f"{ratio:.2f}", "1 (linear)", verdict(ratio <= 1))


def million() -> None:
    """Time and peak memory of `sao` for a million devices, in a process of its own."""
    output = subprocess.run([sys.executable, __file__, "--million"], check=True, capture_output=True, text=True).stdout
    found = json.loads(output)
    show(f"sao, S = {BIG:,}", f"{found['seconds']:.2f} s", "2 s", verdict(found["seconds"] <= 2.0))
    show(f"sao, S = {BIG:,}: peak memory of the process", f"{found['bytes'] / 1e9:.2f} GB", "2 GB",
         verdict(found["bytes"] <= 2e9))


def measure_million() -> None:
    """What :func:`million` starts: one cold solve, as JSON."""
    problem = paper_world(np.random.default_rng(0), BIG)
    problem = replace(problem, gain=np.maximum(problem.gain, 1e-13), budget_j=0.05)
    began = perf_counter()
    plan = allocate(problem, "sao")
    seconds = perf_counter() - began
    assert plan.bandwidth_used_hz <= problem.bandwidth_hz
    print(json.dumps({"seconds": seconds, "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def show(what: str, value: str, goal: str, met: str) -> None:
    """One row of the table, as soon as it is known."""
    print(f"{what:<76} {value:>10}  {goal:<14}{met}", flush=True)


if __name__ == "__main__":
    measure_million() if "--million" in sys.argv else main()
