"""Beyond the paper: time-varying bandwidths. Rounds and energies against fixed bandwidths and lower bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from netsim.allocation import Problem, Shannon, allocate
from netsim.allocation.planner import Wave
from netsim.allocation.sao_adaptive import price_bound
from netsim.allocation.tdma import SingleDevice, single_device_bound
from netsim.base.figures import Figure
from netsim.base.pluralize import pluralize
from netsim.base.tolerances import CONSTRAINT, MEETS_BOUND
from netsim.base.types import Floats
from netsim.cell.schedulers import SCHEDULERS
from netsim.paper.plots import canvas, spread
from netsim.paper.random_layouts import Table, by_layout, over_sao, plan_of, summarized, with_budget
from netsim.paper.report import Finding, Report, all_or_some, markdown
from netsim.paper.reproduce import Context
from netsim.sample_problem import sample_problem
from netsim.scenario import load_scenario
from netsim.server.replay import play_wave

LAYOUTS, QUICK = 100, 3
LARGE = 30                # devices of the large cohort; a search takes half a minute
SEARCHED = {10: 100, LARGE: 20}      # number of layouts searched, by cohort size
NEAR = 1e-3               # relative distance to the bound within which a result counts as optimal


@dataclass(frozen=True)
class Setting:
    """Variant of the paper's cell."""

    title: str
    change: Callable[[Problem], Problem] = lambda problem: problem
    cohort: int = 10

    def layout(self, seed: int) -> Problem:
        """Return layout ``seed``: the cell under that seed, with a random cohort."""
        return self.change(sample_problem(load_scenario("paper", [f"selection.cohort={self.cohort}"]), seed).problem)


SETTINGS = {
    "paper": Setting("15 to 30 mJ"),
    "30 mJ": Setting("30 mJ", lambda problem: with_budget(problem, 30)),
    "heavy": Setting("bits x8, budgets x4", lambda problem: replace(
        problem, bits=8 * problem.bits, budget_j=4 * problem.budget_j)),
    "large": Setting("S = 30, 15 to 30 mJ", cohort=LARGE),
    "large, 30 mJ": Setting("S = 30, 30 mJ", lambda problem: with_budget(problem, 30), LARGE),
}
NAMES = {
    "sao": "sao: the best fixed bands", "algorithm5": "Algorithm 5 as printed",
    "equal": "sao's CPUs, equal parts of the band at each moment", "adaptive": "sao's CPUs, all who send end together",
    "tdma": "tdma", "sao-adaptive": "sao-adaptive", "bound": "no schedule can do better", "solo": "solo bound",
    "tdma at 7.4 bit/s/Hz": "tdma, its rate at most 7.4 bit/s/Hz",
    "tdma at 5.55 bit/s/Hz": "tdma, at most 5.55 bit/s/Hz",
    "tdma at 5.55 bit/s/Hz, 2 ms": "tdma, at most 5.55 bit/s/Hz, 2 ms of silence between devices",
}
LIMITS = {"tdma at 7.4 bit/s/Hz": (7.4, 0.0), "tdma at 5.55 bit/s/Hz": (5.55, 0.0),
          "tdma at 5.55 bit/s/Hz, 2 ms": (5.55, 2e-3)}      # spectral-efficiency cap, gap between devices
DRAWN = {"equal": "#d55e00", "adaptive": "#e69f00", "tdma": "#009e73", "sao-adaptive": "#0072b2", "bound": "#000000"}
Row = dict[str, Any]


def sharing(context: Context) -> Report:
    """Report T and energy with fixed and with time-varying bandwidths, and lower bounds of any schedule."""
    count = context.count(LAYOUTS, QUICK)
    names = ["paper", "heavy"] if context.quick else list(SETTINGS)
    asked = [(name, seed) for name in names for seed in range(count)]
    with context.place.open() as executor:
        rows = [row for found in executor.map(measured, *zip(*asked, strict=True)) for row in found]
    rounds, energies = (by_layout(rows, column, names, NAMES, count) for column in ("round_s", "energy_j"))
    return Report(
        findings=_findings(rows, rounds, energies), how=_how(rounds, energies, count), rows=rows,
        summary={name: {method: summarized(rounds, energies, name, method) for method in NAMES} for name in names},
        figure=_drawn(rounds, energies))


def measured(name: str, seed: int) -> list[Row]:
    """Measure one layout of a cell; empty if fixed bandwidths have no plan."""
    setting = SETTINGS[name]
    problem = setting.layout(seed)
    rows: list[Row] = []

    def note(method: str, round_s: float, energy_j: float = np.nan, over: int = 0) -> None:
        rows.append({"cell": name, "layout": seed, "method": method, "round_s": round_s,
                     **({} if np.isnan(energy_j) else {"energy_j": energy_j, "over_budget": over})})

    fixed = plan_of(problem, "sao")
    if fixed is None:
        return []
    for method in ("sao", "algorithm5", "tdma"):
        plan = plan_of(problem, method)
        if plan is not None:
            note(method, plan.round_s, plan.energy_j, int(plan.over_budget.sum()))
    for sharing in ("equal", "adaptive"):
        jobs = play_wave(Wave(np.arange(len(problem)), problem, fixed), SCHEDULERS.find(sharing)()).jobs
        energy_j = np.array(jobs["energy_j"])[np.argsort(jobs["device"])]
        note(sharing, float(max(jobs["t1"])), float(energy_j.sum()),
             int((energy_j > problem.budget_j * (1 + CONSTRAINT)).sum()))
    for limited, (cap, guard) in LIMITS.items():
        alone = SingleDevice.of(replace(problem, link=Shannon(cap=cap)))
        note(limited, float((alone.turns(guard) + alone.air_s).max()))
    note("solo", single_device_bound(problem))
    if seed < SEARCHED[setting.cohort]:
        best = allocate(problem, "sao-adaptive")
        note("sao-adaptive", best.round_s, best.energy_j, int(best.over_budget.sum()))
        note("bound", price_bound(problem, best))
    return rows


def _findings(rows: list[Row], rounds: Table, energies: Table) -> list[Finding]:
    paper = over_sao(rounds, "paper", "tdma")
    both = rounds["paper"]
    met = both["tdma"] <= both["solo"] * (1 + MEETS_BOUND)
    saved = spread(over_sao(energies, "paper", "tdma"), "times", 1, 2)
    gaps = {name: _gap(rounds[name]) for name in rounds}
    near = gaps["paper"]
    over = {method: sum(row.get("over_budget", 0) for row in rows if row["method"] == method)
            for method in ("adaptive", "equal", "tdma", "sao-adaptive")}
    adaptive = np.concatenate([over_sao(rounds, name, "adaptive") for name in rounds])
    limited = {method: over_sao(rounds, "paper", method) for method in LIMITS}
    return [
        Finding("in the paper's cell one after the other with the whole band is shorter than the best fixed bands",
                f"in {int((paper < 1).sum())} of {pluralize(len(paper), 'layout')}; "
                f"{spread(paper, 'times', 1, 3)} as long, with {saved} the energy",
                all_or_some([bool((paper < 1).all())]),
                "the power is fixed, so that time on the air is what costs energy: what the whole band saves of it "
                "buys a faster CPU"),
        Finding("there it is often the best that any schedule can do",
                f"it meets the solo bound in {int(met.sum())} of "
                f"{pluralize(int(np.isfinite(both['tdma']).sum()), 'layout')}; the best schedule found is within "
                f"0.1 % of a proven bound in {int((near < NEAR).sum())} of {len(near)}, "
                f"at most {100 * near.max():.2f} % above it", all_or_some([bool(met.sum() > len(met) / 2)])),
        Finding("with the clocks of sao and while nothing changes in time, sharing so that all end together is never "
                "later than fixed bands, and breaks no budget",
                f"at most {adaptive.max():.4f} times as long in {pluralize(len(adaptive), 'round')}; devices over "
                f"budget: {over['adaptive']} (equal parts of the band at each moment: {over['equal']})",
                all_or_some([bool(adaptive.max() <= 1)
                             and over["adaptive"] == over["tdma"] == over["sao-adaptive"] == 0])),
        Finding("what tdma gains rests on Shannon's rate at high signal-to-noise ratios",
                "; ".join(f"{NAMES[method]}: {spread(ratio, 'times', 1, 3)}, longer than fixed bands in "
                          f"{int((ratio > 1).sum())} of {len(ratio)}" for method, ratio in limited.items()),
                all_or_some([all(np.median(ratio) > np.median(paper) for ratio in limited.values())]),
                "only tdma is limited here; energy for receiving, synchronising and control is not in the model"),
    ]


def _gap(rounds: Mapping[str, Floats]) -> Floats:
    """Return the relative gap between the best schedule found and the bound."""
    gap: Floats = rounds["sao-adaptive"] / rounds["bound"] - 1
    return gap[np.isfinite(gap)]


def _how(rounds: Table, energies: Table, count: int) -> str:
    """Return the table of medians, over layouts, of T and energy relative to `sao`."""
    gaps = "; ".join(f"{SETTINGS[name].title}: median {100 * np.median(_gap(rounds[name])):.2f} %, 90th percentile "
                     f"{100 * np.percentile(_gap(rounds[name]), 90):.2f} %" for name in rounds)
    return "\n".join([
        "Median of the round over that of sao, layout by layout; in brackets the same of the energy. First line: "
        "quartiles of the round in ms.", "",
        *markdown(["", *(SETTINGS[name].title for name in rounds)],
                  [[title, *(_medians(rounds, energies, name, method) for name in rounds)]
                   for method, title in NAMES.items()]),
        "", f"How far sao-adaptive is above the bound: {gaps}.", "",
        f"{pluralize(count, 'layout')} of a cell; layout i is the `paper` scenario under seed i, with a random "
        "cohort. `sao` is still the exact optimum of its own problem, in which bands are fixed for the round. "
        "What no schedule can do better is the larger of the solo bound and a bound by prices. Equal parts and "
        "common ends are simulated with sao's CPU frequencies; the others are plans, which the simulation plays "
        "to 1e-9."])


def _medians(rounds: Table, energies: Table, name: str, method: str) -> str:
    ratio, energy = over_sao(rounds, name, method), over_sao(energies, name, method)
    if method == "sao":
        there = np.percentile(1e3 * rounds[name]["sao"][np.isfinite(rounds[name]["sao"])], [25, 50, 75])
        return " / ".join(f"{ms:.1f}" for ms in there) + f", n {len(ratio)}"
    few = f", n {len(ratio)}" if len(ratio) != len(over_sao(rounds, name, "sao")) else ""
    return f"{np.median(ratio):.3f}{few}" + (f" ({np.median(energy):.2f})" if len(energy) else "")


def _drawn(rounds: Table, energies: Table) -> Figure:
    figure, panels = canvas(11.5, 4.4, 1, 2)
    for panel, table, what in zip(panels[0], (rounds, energies), ("round", "energy"), strict=True):
        for place, name in enumerate(table):
            for k, (method, colour) in enumerate(DRAWN.items()):
                ratio = over_sao(table, name, method)
                if len(ratio):
                    low, middle, high = np.percentile(ratio, [25, 50, 75])
                    x = place + 0.15 * (k - 2)
                    panel.plot([x, x], [low, high], color=colour, linewidth=2, alpha=0.5)
                    panel.plot(x, middle, "_" if method == "bound" else "o", color=colour, markersize=8,
                               markeredgewidth=2, label=NAMES[method] if place == 0 else None)
        panel.axhline(1, color="0.4", linewidth=0.8)
        panel.set_xticks(range(len(table)), [SETTINGS[name].title.replace(", ", "\n") for name in table], fontsize=8)
        panel.set_title(f"{what} over that of the best fixed bands: medians, quartiles", fontsize=10)
    panels[0, 0].legend(frameon=False, fontsize="small", loc="lower left")
    return figure
