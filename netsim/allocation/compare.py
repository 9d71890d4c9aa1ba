"""Compare allocation methods on one problem: numbers, JSON and a figure."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from netsim.allocation.infeasibility import Infeasibility, find_infeasibility
from netsim.allocation.methods import METHODS, require_link
from netsim.allocation.plan import Infeasible, Plan
from netsim.allocation.problem import Problem
from netsim.allocation.sensitivities import Saving, ShadowPrices, prices_of, savings
from netsim.base.figures import as_it_stands, new_figure, save_figure
from netsim.base.registry import load
from netsim.base.types import Ints


@dataclass(frozen=True, eq=False)
class Result:
    """The plan of one method, or the reason why it has none."""

    method: str                     # name with options
    devices: Ints                   # device numbers
    problem: Problem
    solve_s: float                  # wall time of the solver
    plan: Plan | None
    reason: str | None              # why there is no plan
    prices: ShadowPrices | None = None    # shadow prices, for methods that have them
    savings: Sequence[Saving] = ()  # seconds saved by example changes, for the same methods
    obstacles: Infeasibility | None = None     # diagnosis of an infeasible problem
    bound_s: float | None = None    # lower bound on the round, for methods with slots

    @property
    def feasible(self) -> bool:
        return self.plan is not None

    @property
    def names(self) -> list[str]:
        """Names of the devices."""
        return [self.problem.called(position) for position in range(len(self.problem))]

    def as_json(self) -> dict[str, Any]:
        """Return the object that `netsim allocate --json` prints for a method, with its slots if it has any."""
        plan, devices = self.plan, self.devices.tolist()
        head = {"method": self.method, "feasible": self.feasible, "reason": self.reason,
                "round_s": plan.round_s if plan else None, "energy_j": plan.energy_j if plan else None,
                "solve_s": self.solve_s}
        if plan is None:
            return {**head, "devices": []}
        columns = {
            "device": devices, "bandwidth_hz": plan.bandwidth_hz, "cpu_hz": plan.cpu_hz, "power_w": plan.power_w,
            "compute_s": plan.compute_s, "upload_s": plan.upload_s, "energy_j": plan.device_energy_j,
            "budget_j": [None if math.isinf(budget_j) else budget_j for budget_j in self.problem.budget_j.tolist()],
        }
        found = {**head, "devices": _rows(columns)}
        if plan.slots is None:
            return found
        slots = plan.slots
        return {**found, "bound_s": self.bound_s, "slots": _rows(
            {"t0_s": slots.t0_s, "t1_s": slots.t1_s, "device": self.devices[slots.device], "hertz": slots.hertz})}


def _rows(columns: Mapping[str, Any]) -> list[dict[str, float]]:
    """Return a dict of plain numbers for each row."""
    rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def compare(problem: Problem, methods: Iterable[tuple[str, Mapping[str, Any]]], devices: Ints) -> list[Result]:
    """Solve the same problem with each method and its options; ``devices`` are the numbers to display."""
    numbered = replace(problem, numbers=devices)
    return [_result(numbered, method, options, devices) for method, options in methods]


def _result(problem: Problem, method: str, options: Mapping[str, Any], devices: Ints) -> Result:
    """Solve with one method, and time it without the import of its module."""
    solver = METHODS.make(method, options)
    label = ":".join([method, ",".join(f"{name}={value}" for name, value in options.items())] if options else [method])
    loaded = len(sys.modules)
    if method in METHODS:
        require_link("allocation.method", method, METHODS[method].links, problem.link,
                     tables=problem.cpu_power is not None)
    plan, reason, solve_s = _timed(solver, problem)
    if len(sys.modules) > loaded:      # the time went into loading scipy
        plan, reason, solve_s = _timed(solver, problem)
    found = Result(label, devices, problem, solve_s, plan, reason)
    if plan is None:
        return replace(found, obstacles=find_infeasibility(problem))
    prices = prices_of(problem, plan, method)
    saved = savings(problem, plan, prices, method, dict(options)) if prices else ()
    place = METHODS[method].bound if method in METHODS else None
    return replace(found, prices=prices, savings=saved, bound_s=float(load(place)(problem, plan)) if place else None)


def _timed(solver: Callable[[Problem], Plan], problem: Problem) -> tuple[Plan | None, str | None, float]:
    """Return the plan, or the reason why there is none, and the seconds that it took."""
    plan, reason = None, None
    began = perf_counter()
    try:
        plan = solver(problem)
    except Infeasible as why:
        reason = str(why)
    return plan, reason, perf_counter() - began


def figure(results: Sequence[Result], path: Path) -> None:
    """Draw each device's compute and upload time as stacked bars, one bar for each method; PNG, SVG or PDF."""
    plans = [(result.method, result.plan) for result in results if result.plan is not None]
    numbers = results[0].devices
    longest = max((plan.round_s for _, plan in plans), default=0.0)
    scale, unit = (1e3, "ms") if longest < 10.0 else (1.0, "s")
    wide = min(max(6.4, 1.6 + 0.22 * len(numbers) * len(plans)), 40.0)
    canvas = new_figure(wide, 4.2)
    axes = canvas.subplots()
    width = 0.8 / max(len(plans), 1)
    handles: list[Any] = []
    for k, (method, plan) in enumerate(plans):
        x = np.arange(len(numbers)) - 0.4 + (k + 0.5) * width
        label = f"{as_it_stands(method)}: round {plan.round_s * scale:.4g} {unit}, {plan.energy_j * 1e3:.4g} mJ"
        handles.append(axes.bar(x, plan.compute_s * scale, width * 0.92, color=f"C{k}", label=label))
        axes.bar(x, plan.upload_s * scale, width * 0.92, bottom=plan.start_s * scale, color=f"C{k}", alpha=0.4)
        axes.axhline(plan.round_s * scale, color=f"C{k}", linewidth=0.8, linestyle=":")
    for result in results:
        if result.plan is None:
            handles.extend(axes.plot([], [], " ", label=f"{as_it_stands(result.method)}: no plan"))
    every = max(1, len(numbers) // 50)
    named = results[0].problem.names is not None      # names instead of numbers
    names = [as_it_stands(name) for name in results[0].names] if named else [str(n) for n in numbers]
    axes.set_xticks(np.arange(len(numbers))[::every], names[::every], rotation=90 if named else 0)
    axes.set(xlabel="device", ylabel=f"time ({unit})", xlim=(-0.6, len(numbers) - 0.4))
    axes.set_title("solid: compute, pale: upload, dotted: the round", loc="right", fontsize="small", color="0.4")
    axes.spines[["top", "right"]].set_visible(False)
    canvas.legend(handles=handles, loc="outside upper left", ncols=2, frameon=False, fontsize="small")
    save_figure(canvas, path)
