"""Theory of the optimum, measured: Theorem 1, the complexity of Algorithm 5, and the effect of S."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from timeit import repeat
from typing import Any

import numpy as np

from netsim.allocation import Problem
from netsim.base.figures import Axes, Figure
from netsim.base.pluralize import pluralize
from netsim.base.tolerances import CONSTRAINT
from netsim.base.types import Floats
from netsim.paper.plots import canvas, spread
from netsim.paper.random_layouts import everybody, layouts, of_plans, plan_of, with_budget
from netsim.paper.report import Finding, Report, all_or_some
from netsim.paper.reproduce import Context

BUDGETS_MJ = (None, 30.0, 40.0, 50.0)                  # None: the paper's 15 to 30 mJ
SIZES = (10, 20, 30, 50, 100)                          # S, of a hundred devices with 40 mJ
MANY = (4_000, 8_000, 16_000, 32_000, 64_000)          # S for the running time of Algorithm 5
REPEATS = 3


def theorem1(context: Context) -> Report:
    """Equal ends, spent budgets and the whole band at the optimum; the running time and S."""
    problems, quick = layouts(context), context.quick
    rows = [row for budget in BUDGETS_MJ for layout, problem in enumerate(problems)
            if (row := _optimum(with_budget(problem, budget), budget, layout)) is not None]
    rounds = _by_size(everybody(3 if quick else 20), SIZES[:2] if quick else SIZES)
    seconds = _running_time(problems[0], MANY[:2] if quick else MANY)
    return Report(
        findings=[*_of_theorem(rows), _of_size(rounds), _of_running_time(seconds)],
        how=f"{pluralize(len(problems), 'layout')} of the `paper` scenario with `sao`, the exact optimum. A device "
            f"ends with the round, or has spent its budget, if the two differ by less than {CONSTRAINT:g} of either. S "
            "devices of a hundred with 40 mJ each: the first S of the same random order. Running time: processor time "
            f"of `algorithm5` as printed, the best of {REPEATS}, with S times a tenth of the band of ten devices.",
        rows=rows, summary={"seconds_by_size": seconds}, figure=_draw(rows, rounds, seconds))


def _optimum(problem: Problem, budget_mj: float | None, layout: int) -> dict[str, Any] | None:
    """Number of devices of a layout's optimum for which each equation of Theorem 1 holds, and where the CPUs are."""
    plan = plan_of(problem, "sao")
    if plan is None:
        return None
    ends = plan.compute_s + plan.upload_s >= plan.round_s * (1 - CONSTRAINT)
    spent = plan.device_energy_j >= problem.budget_j * (1 - CONSTRAINT)
    fastest = plan.cpu_hz >= problem.cpu_max_hz * (1 - CONSTRAINT)
    free = (plan.cpu_hz > problem.cpu_min_hz * (1 + CONSTRAINT)) & ~fastest      # CPU at neither end of its range
    return {"budget_mj": budget_mj or "own", "layout": layout, "devices": len(problem), "ends": int(ends.sum()),
            "spent": int(spent.sum()), "free": int(free.sum()), "free_ends": int((free & ends).sum()),
            "free_spent": int((free & spent).sum()), "at_fastest": int(fastest.sum()),
            "at_slowest": int((~free & ~fastest).sum()),
            "band": float(plan.bandwidth_hz.sum() / problem.bandwidth_hz)}


def _of_theorem(rows: list[dict[str, Any]]) -> list[Finding]:
    def share(part: str, whole: str, budget: float | str) -> float:
        own = [row for row in rows if row["budget_mj"] == budget]
        return float(100 * sum(row[part] for row in own) / max(sum(row[whole] for row in own), 1))

    budgets = list(dict.fromkeys(row["budget_mj"] for row in rows))
    named = {budget: "15 to 30 mJ" if budget == "own" else f"{budget:g} mJ" for budget in budgets}

    def finding(equation: str, part: str, why: str) -> Finding:
        by_budget = [share(part, "devices", budget) for budget in budgets]
        inside = [share(f"free_{part}", "free", budget) for budget in budgets]
        words = "; ".join(
            f"{named[budget]}: {value:.1f} % of the devices ({own:.1f} % of those inside their CPU's range)"
            for budget, value, own in zip(budgets, by_budget, inside, strict=True))
        return Finding(equation, words, all_or_some([value == 100 for value in by_budget]), why)

    band = [row["band"] for row in rows]
    return [
        finding("(Theorem 1) at the optimum all devices end at the same time", "ends",
                "a device at its slowest clock that still ends earlier has the least band that its budget allows"),
        finding("(Theorem 1) and each spends its whole budget", "spent",
                "a device at its fastest clock has nothing to spend the rest on: the theorem leaves out the limits of "
                "the CPU's range"),
        Finding("(Theorem 1) and the whole band is in use",
                f"the bands add up to {min(band):.9f} to {max(band):.9f} of the cell's",
                all_or_some([abs(value - 1) <= CONSTRAINT for value in band])),
    ]


def _by_size(cells: list[Problem], sizes: tuple[int, ...]) -> dict[int, tuple[Floats, Floats]]:
    """By S, the length of a round in seconds and its energy in joules, in each cell; NaN where no plan is feasible."""
    rounds = {}
    for size in sizes:
        orders = [np.random.default_rng(number).permutation(len(cell)) for number, cell in enumerate(cells)]
        plans = [plan_of(with_budget(cell.subset(order[:size]), 40.0), "sao")
                 for cell, order in zip(cells, orders, strict=True)]
        rounds[size] = of_plans(plans), of_plans(plans, lambda plan: plan.energy_j)
    return rounds


def _of_size(rounds: dict[int, tuple[Floats, Floats]]) -> Finding:
    words = "; ".join(f"S = {size}: {spread(seconds, 'ms', 1e3)}, {spread(joules, 'J', 1, 2)}"
                      for size, (seconds, joules) in rounds.items())
    pairs = list(zip(rounds.values(), list(rounds.values())[1:], strict=False))
    higher = [bool(np.nanmin(after[part] - before[part]) > 0) for before, after in pairs for part in (0, 1)]
    return Finding("a larger S gives each round a higher energy E_k and delay T_k", words, all_or_some(higher),
                   "with the same draws each larger cohort contains the smaller one")


def _running_time(problem: Problem, sizes: tuple[int, ...]) -> dict[str, float]:
    """Processor seconds of Algorithm 5 by S, for copies of one layout with a band that grows with them."""
    seconds = {}
    for size in sizes:
        copies = problem.subset(np.resize(np.arange(len(problem)), size))
        larger = replace(copies, bandwidth_hz=problem.bandwidth_hz * size / len(problem))
        seconds[str(size)] = min(
            repeat(partial(plan_of, larger, "algorithm5"), timer=time.process_time, repeat=REPEATS, number=1))
    return seconds


def _of_running_time(seconds: dict[str, float]) -> Finding:
    sizes, values = np.log([float(size) for size in seconds]), np.log(list(seconds.values()))
    slope = float(np.polyfit(sizes, values, 1)[0])
    return Finding("Algorithm 5 takes time in proportion to S squared",
                   f"from S = {min(map(int, seconds)):,} to {max(map(int, seconds)):,} its time grows as S to the "
                   f"power of {slope:.2f}", "differs" if slope < 1.5 else "agrees",
                   "each step of the outer bisection looks at each device once, and the two inner bisections follow "
                   "one another: S log(1/e0) (log(1/e1) + log(1/e2))")


def _draw(rows: list[dict[str, Any]], rounds: dict[int, tuple[Floats, Floats]], seconds: dict[str, float]) -> Figure:
    figure, ((left, middle, right),) = canvas(14, 4.2, 1, 3)
    budgets = list(dict.fromkeys(row["budget_mj"] for row in rows))
    for part, label in (("ends", "end with the round"), ("spent", "spend the whole budget"),
                        ("at_fastest", "at the fastest clock")):
        shares = [100 * np.mean([row[part] / row["devices"] for row in rows if row["budget_mj"] == budget])
                  for budget in budgets]
        left.plot(range(len(budgets)), shares, marker="o", label=label)
    left.set(xticks=range(len(budgets)), xlabel="budget of a device (mJ)", ylabel="devices (%)", title="Theorem 1")
    left.set_xticklabels(["15 to 30" if budget == "own" else f"{budget:g}" for budget in budgets])
    left.legend()
    for place, label in enumerate(("delay T_k (s)", "energy E_k (J)")):
        medians = [np.nanmedian(values[place]) for values in rounds.values()]
        middle.plot(list(rounds), medians, marker="o", label=label)
    middle.set(xlabel="S", title="A round of S devices, medians", yscale="log")
    middle.legend()
    _draw_running_time(right, seconds)
    return figure


def _draw_running_time(panel: Axes, seconds: dict[str, float]) -> None:
    sizes, times = [float(size) for size in seconds], list(seconds.values())
    panel.plot(sizes, times, marker="o", label="Algorithm 5")
    for power, line in ((1, ":"), (2, "--")):
        panel.plot(sizes, [times[0] * (size / sizes[0]) ** power for size in sizes], line, color="grey",
                   label=f"S^{power}")
    panel.set(xlabel="S", ylabel="processor time (s)", title="Running time", xscale="log", yscale="log")
    panel.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
    panel.minorticks_off()
    panel.legend()
