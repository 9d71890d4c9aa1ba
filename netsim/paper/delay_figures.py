"""Fig. 5, 6, 7 and 14: delay and energy of a round, by allocation method, transmit power and energy budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from netsim.allocation import Infeasible, Plan, Problem, allocate
from netsim.allocation.fedl import tune
from netsim.base.figures import Axes, Figure, new_figure
from netsim.base.pluralize import pluralize
from netsim.base.tolerances import CONSTRAINT, MEETS_BOUND
from netsim.base.types import Floats
from netsim.base.units import dbm_from_watts
from netsim.paper.plots import COLOURS, NAMES, band, canvas, plain, quartiles, spread
from netsim.paper.random_layouts import layouts, of_plans, plan_of, round_times, with_budget, with_power
from netsim.paper.report import Finding, Report, all_or_some
from netsim.paper.reproduce import Context

METHODS = ("sao", "algorithm5", "equal", "fedl")
OPTIONS = {"fedl": {"lambda": "tuned"}}
POWERS_DBM = tuple(range(10, 24))
BUDGETS_MJ = (30.0, 32.5, 35.0, 37.5, 40.0, 42.5, 45.0, 47.5, 50.0)
SAME_DELAY = 1e-3       # relative tolerance of an optimal delay: less than the figures show
HOW = ("Layouts are the `paper` scenario under seeds from 0: ten devices of a hundred in a cell of 300 m, 20 MHz, 448 "
       "kbit, L C D with the calibrated values. FEDL's weight is tuned in each layout to the largest that keeps every "
       "budget.")
PRINTED = {"all budgets kept": 1.82, "SAO's energy": 4.58, "shortest round": 1000.0}     # Fig. 5: three lambdas of FEDL
FEDL_COLOURS = {"SAO": "#0072b2", "all budgets kept": "#009e73", "SAO's energy": "#e69f00", "shortest round": "#d55e00"}
Delays = Mapping[str, Floats]      # by method: seconds of a round, (settings, layouts), NaN without a plan


@dataclass(frozen=True, eq=False)
class Case:
    """One layout: its problem, and a lambda and plan for SAO (lambda NaN) and the three kinds of FEDL."""

    layout: int
    problem: Problem
    answers: dict[str, tuple[float, Plan]]

    def delay(self, name: str) -> float:
        """Return the delay relative to SAO."""
        return self.answers[name][1].round_s / self.answers["SAO"][1].round_s


def solved(problems: Iterable[Problem]) -> list[Case]:
    """Solve feasible layouts by SAO, and by FEDL with lambda for the budgets, for SAO's energy, and large."""
    cases = []
    for layout, problem in enumerate(problems):
        try:
            sao, kept = allocate(problem, "sao"), tune(problem)
        except Infeasible:
            continue
        same, fast = weight_for_energy(problem, sao.energy_j), PRINTED["shortest round"]
        cases.append(Case(layout, problem, {
            "SAO": (math.nan, sao), "all budgets kept": kept, "SAO's energy": (same, _fedl(problem, same)),
            "shortest round": (fast, _fedl(problem, fast))}))
    return cases


def weight_for_energy(problem: Problem, energy_j: float) -> float:
    """Return the lambda at which FEDL's total energy is ``energy_j``; the energy increases with lambda."""
    log_weight: float = brentq(
        lambda x: _fedl(problem, math.exp(x)).energy_j / energy_j - 1.0, math.log(1e-3), math.log(1e3), xtol=1e-9)
    return math.exp(log_weight)


def _fedl(problem: Problem, weight: float) -> Plan:
    return allocate(problem, "fedl", **{"lambda": weight})


def fig5(context: Context) -> Report:
    """Report delay, total energy and budgets kept, over many layouts at budgets of 15 to 30 mJ."""
    problems = layouts(context)
    cases = solved(problems)
    fedl = {name: FedlCases(np.array([case.answers[name][0] for case in cases]),
                            np.array([case.delay(name) for case in cases]),
                            np.array([float(case.answers[name][1].over_budget.sum()) for case in cases]))
            for name in PRINTED}
    slower_30 = [case.delay("all budgets kept") for case in solved(with_budget(problem, 30) for problem in problems)]
    return Report(
        findings=_of_fedl(fedl, slower_30),
        how=f"{pluralize(len(cases), 'layout')} of the `paper` scenario with a plan, of {len(problems)} tried: ten "
            "devices, 23 dBm, budgets from 15 to 30 mJ. FEDL is solved exactly. In each layout lambda has three "
            "values: the largest that keeps every budget, the one with SAO's total energy, and 1000. The upper panel "
            "is the layout whose SAO delay is the median.",
        rows=[{"layout": case.layout, "method": "sao" if name == "SAO" else "fedl", "case": name,
               "lambda": "" if name == "SAO" else weight, "round_s": plan.round_s, "energy_j": plan.energy_j,
               "devices_over_budget": int(plan.over_budget.sum()),
               "largest_energy_over_budget": float(np.max(plan.device_energy_j / case.problem.budget_j))}
              for case in cases for name, (weight, plan) in case.answers.items()],
        summary={
            "layouts": len(cases), "sao_round_s": quartiles([case.answers["SAO"][1].round_s for case in cases]),
            **{name: {"lambda": quartiles(found.weights), "round_over_sao": quartiles(found.delays),
                      "devices_over_budget": quartiles(found.over)} for name, found in fedl.items()},
            "budgets kept, 30 mJ for all": {"round_over_sao": quartiles(slower_30)},
        },
        figure=_draw_cases(cases))


class FedlCases(NamedTuple):
    """FEDL with one of its three lambdas: lambda, delay over SAO's and devices over budget, by layout."""

    weights: Floats
    delays: Floats
    over: Floats

    @property
    def longer(self) -> str:
        """Number of layouts in which it takes longer than SAO, in words."""
        return (f"longer in {int((self.delays > 1 + MEETS_BOUND).sum())} of "
                f"{pluralize(len(self.delays), 'layout')}")


def _of_fedl(fedl: Mapping[str, FedlCases], slower_30: Sequence[float]) -> list[Finding]:
    """Return the findings on FEDL with the lambdas that keep the budgets, use SAO's energy, and are large."""
    kept, same, fast = fedl.values()
    middle = np.median(kept.delays)
    return [
        Finding("with lambda 1.82 FEDL keeps every budget, and takes much longer than SAO",
                f"the largest lambda that keeps them is {spread(kept.weights, digits=2)}; FEDL then takes "
                f"{spread(kept.delays, 'times', digits=2)} as long as SAO (at 30 mJ for all: "
                f"{spread(slower_30, 'times', digits=2)}); slower in {int((kept.delays > 1).sum())} of "
                f"{len(kept.delays)}",
                "agrees" if min(kept.delays) > 1 else "agrees in part" if middle > 1 else "differs",
                f"by {100 * middle - 100:.0f} % in the median, more or less with the layout"),
        Finding("above lambda 1.82 FEDL has no feasible plan", "so it is by definition above each layout's own "
                f"lambda ({kept.weights.min():.2f} to {kept.weights.max():.2f})", "agrees"),
        Finding("with lambda 4.58 FEDL uses SAO's total energy, and four devices exceed their budgets",
                f"lambda {spread(same.weights, digits=2)}; devices over budget {spread(same.over, digits=0)}",
                "agrees" if np.median(same.over) == 4 else "agrees in part" if min(same.over) > 0 else "differs"),
        Finding("with lambda 4.58 FEDL takes longer than SAO",
                f"at SAO's total energy FEDL takes {spread(same.delays, 'times', digits=3)} as long; {same.longer}",
                "can't hold",
                "SAO's plan is one that FEDL may choose, so at the same energy FEDL's best round is never longer"),
        Finding("with lambda 1000 FEDL takes longer than SAO, and breaks budgets",
                f"it takes {spread(fast.delays, 'times', digits=2)} as long, {fast.longer}; devices over budget "
                f"{spread(fast.over, digits=0)}", "can't hold",
                "a large lambda leads to the shortest round of all, which no budgets slow down"),
    ]


def _draw_cases(cases: list[Case]) -> Figure:
    """Draw energies of one layout's devices above, delay and energy over all layouts below."""
    figure = new_figure(11, 7.5)
    panels = figure.subplot_mosaic([["devices", "devices"], ["delay", "energy"]])
    for panel in panels.values():
        plain(panel)
    _draw_energies(panels["devices"], sorted(cases, key=lambda case: case.answers["SAO"][1].round_s)[len(cases) // 2])
    names = list(cases[0].answers)
    for panel, column, label in ((panels["delay"], "round_s", "delay of a round (ms)"),
                                 (panels["energy"], "energy_j", "total energy of a round (mJ)")):
        boxes = panel.boxplot([[getattr(case.answers[name][1], column) * 1e3 for case in cases] for name in names],
                              patch_artist=True, showfliers=False, medianprops={"color": "black"})
        for box, name in zip(boxes["boxes"], names, strict=True):
            box.set_facecolor(FEDL_COLOURS[name])
        panel.set_xticks(range(1, 5), ["SAO", *(f"FEDL,\n{name}" for name in names[1:])], fontsize=9)
        panel.set(ylabel=label, title=pluralize(len(cases), "layout"))
        panel.set_ylim(bottom=0)
    return figure


def _draw_energies(panel: Axes, case: Case) -> None:
    devices = np.arange(len(case.problem))
    for place, (name, (weight, plan)) in enumerate(case.answers.items()):
        label = name if name == "SAO" else f"FEDL, {name} (lambda {weight:.4g})"
        panel.bar(devices + 0.2 * (place - 1.5), plan.device_energy_j * 1e3, width=0.19, color=FEDL_COLOURS[name],
                  label=label)
    for device in devices:
        panel.hlines(case.problem.budget_j[device] * 1e3, device - 0.45, device + 0.45, color="black", linewidth=1.5,
                     label="budget" if device == 0 else "_")
    panel.set(xlabel="device", ylabel="energy in a round (mJ)", title="Energy of each device, one layout")
    panel.set_xticks(devices)
    panel.set_ylim(top=1.35 * panel.get_ylim()[1])
    panel.legend(ncols=3, fontsize=8)


def fig6(context: Context) -> Report:
    """Report the delay against transmit power at a budget of 30 mJ."""
    def losses(loss: Mapping[float, Floats]) -> tuple[str, str]:
        return (f"takes {spread(loss[10], 'times')} as long as the optimum at 10 dBm (at worst "
                f"{np.nanmax(loss[10]):.1f} times) and {spread(loss[23], 'times', 1, 3)} at 23 dBm",
                "where a CPU is at its limit it takes the bandwidth from the energy equality, but there the delay "
                "binds")

    problems = [with_budget(problem, 30) for problem in layouts(context)]
    return _against(problems, (10, 16, 20, 23) if context.quick else POWERS_DBM, with_power, "power_dbm",
                    "transmit power of every device (dBm)", ("a budget of 30 mJ", "budget 30 mJ"), losses)


def fig7(context: Context) -> Report:
    """Report the delay against the budget at 23 dBm."""
    def losses(loss: Mapping[float, Floats]) -> tuple[str, str]:
        longer = "; ".join(f"{spread(loss[budget] * 100 - 100, '%', 1, 0)} at {budget} mJ" for budget in (30, 40, 50))
        return (f"is longer than the optimum by {longer}",
                "with more energy more CPUs reach their limit, where it takes too little bandwidth")

    problems = [with_power(problem, 23) for problem in layouts(context)]
    return _against(problems, BUDGETS_MJ[::4] if context.quick else BUDGETS_MJ, with_budget, "budget_mj",
                    "energy budget of every device (mJ)", ("23 dBm", "23 dBm"), losses)


def _against(
    problems: list[Problem], settings: Sequence[float], change: Callable[[Problem, float], Problem], column: str,
    xlabel: str, at: tuple[str, str], losses: Callable[[Mapping[float, Floats]], tuple[str, str]],
) -> Report:
    """Report the delays of all methods against the changed setting; ``at`` names the fixed one.

    ``losses`` returns how much longer than the optimum Algorithm 5 takes, and why, given the ratios by setting.
    """
    delays: Delays = {method: np.stack([
        round_times([change(problem, setting) for problem in problems], method, **OPTIONS.get(method, {}))
        for setting in settings]) for method in METHODS}
    loss = delays["algorithm5"] / delays["sao"]
    words, why = losses(dict(zip(settings, loss, strict=True)))
    return Report(
        findings=[
            _lowest(delays, settings, xlabel[-4:-1].strip("(")),
            Finding("Algorithm 5 finds the optimum", f"as printed it {words}",
                    "differs" if np.nanmax(loss) > 1 + SAME_DELAY else "agrees", why),
        ],
        how=f"{pluralize(len(problems), 'layout')}, {at[1]}; lines are medians, shades quartiles. {HOW}",
        rows=[{column: setting, "layout": layout, "method": method, "round_s": float(seconds)}
              for method, table in delays.items() for setting, line in zip(settings, table, strict=True)
              for layout, seconds in enumerate(line) if np.isfinite(seconds)],
        summary={method: {f"{setting:g}": quartiles(line) for setting, line in zip(settings, table, strict=True)}
                 for method, table in delays.items()},
        figure=_draw(delays, settings, xlabel, f"Delay of a round at {at[0]}"))


def _lowest(delays: Delays, settings: Sequence[float], unit: str) -> Finding:
    """Return the finding of Fig. 6 and Fig. 7 that SAO has the lowest delay; the paper prints no number."""
    sao, words, better = delays["sao"], [], 0
    for method in ("equal", "fedl"):
        both = np.isfinite(sao) & np.isfinite(delays[method])
        faster = int((delays[method][both] < sao[both] * (1 - CONSTRAINT)).sum())
        better += faster
        words.append(f"{NAMES[method]} is faster in {faster} of {pluralize(int(both.sum()), 'case')}")
    ends = ", ".join(f"{spread(sao[at], 'ms', 1e3)} at {settings[at]:g} {unit}" for at in (0, -1))
    return Finding("SAO always has the lowest delay of the three methods", f"{'; '.join(words)}. SAO takes {ends}",
                   "agrees" if better == 0 else "differs", "it is the exact optimum" if better == 0 else "")


def _draw(delays: Delays, settings: Sequence[float], xlabel: str, title: str) -> Figure:
    figure, panels = canvas(11, 4.2, 1, 2)
    left, right = panels[0]
    for method in METHODS:
        band(left, settings, delays[method] * 1e3, method)
        if method != "sao":
            band(right, settings, delays[method] / delays["sao"], method)
    left.set(xlabel=xlabel, ylabel="delay of a round (ms)", title=title, yscale="log")
    _ticks(left, (60, 80, 100, 150, 200, 300, 500, 1000))
    left.legend()
    right.set(xlabel=xlabel, ylabel="delay over that of the exact optimum", title="Layout by layout", yscale="log")
    _ticks(right, (1, 1.1, 1.2, 1.5, 2, 3, 5, 10))
    right.axhline(1, color=COLOURS["sao"], linewidth=1)
    right.legend()
    return figure


def _ticks(panel: Axes, values: Sequence[float]) -> None:
    """Label a logarithmic axis with plain numbers within its range."""
    low, high = panel.get_ylim()
    shown = [value for value in values if low <= value <= high]
    panel.set_yticks(shown, [f"{value:g}" for value in shown])
    panel.minorticks_off()


def fig14(context: Context) -> Report:
    """Report the best common transmit power: a scan, Algorithm 6, the exact one, and the best per device."""
    tried = [with_budget(problem, 30) for problem in layouts(context)]
    by_layout = {layout: problem for layout, problem in enumerate(tried) if plan_of(problem, "sao")}
    problems = list(by_layout.values())
    powers = (10, 16, 20, 22, 23) if context.quick else POWERS_DBM
    scan = np.stack([round_times([with_power(problem, power) for problem in problems], "sao") for power in powers])
    best: dict[str, Floats] = {}
    level: dict[str, Floats] = {}
    for method in ("algorithm6", "sao-common-power", "sao-joint"):
        plans = [plan_of(problem, method) for problem in problems]
        best[method] = of_plans(plans)
        level[method] = of_plans(plans, lambda plan: dbm_from_watts(float(np.mean(plan.power_w))))
    lines = [*(("sao", np.full(len(problems), power), line) for power, line in zip(powers, scan, strict=True)),
             *((method, level[method], best[method]) for method in best)]
    loss = (best["algorithm6"] / best["sao-common-power"] - 1) * 100
    return Report(
        findings=_of_powers(powers, scan, best, level),
        how=f"{pluralize(len(problems), 'layout')} with a plan, budget 30 mJ, powers from 10 to 23 dBm. {HOW}",
        rows=[{"layout": layout, "method": method, "power_dbm": float(dbm), "round_s": float(seconds)}
              for method, dbms, line in lines for layout, dbm, seconds in zip(by_layout, dbms, line, strict=True)
              if np.isfinite(seconds)],
        summary={
            "scan": {f"{power:g}": quartiles(line) for power, line in zip(powers, scan, strict=True)},
            **{method: {"round_s": quartiles(best[method]), "power_dbm": quartiles(level[method])} for method in best},
            "algorithm6_loss_percent": quartiles(loss), "largest_algorithm6_loss_percent": float(np.nanmax(loss)),
        },
        figure=_draw_powers(powers, scan, best, level))


def _of_powers(powers: tuple[int, ...], scan: Floats, best: Delays, level: Delays) -> list[Finding]:
    """Return the findings on the scan of powers, Algorithm 6 and the exact best powers."""
    choice = np.array(powers)[np.nanargmin(scan, axis=0)]
    most_often = float(np.bincount(choice).argmax())
    at_22, common = scan[powers.index(22)], best["sao-common-power"]
    gain = (1 - common / np.nanmin(scan, axis=0)) * 100
    loss = (best["algorithm6"] / common - 1) * 100
    return [
        Finding("of the whole dBm values 22 is best, with 111.84 ms",
                f"at 22 dBm {spread(at_22, 'ms', 1e3, 2)}; the best whole value is {most_often:g} most often "
                f"(22 in {int((choice == 22).sum())} of {pluralize(len(choice), 'layout')}; range {choice.min()} "
                f"to {choice.max()})",
                all_or_some([most_often == 22, _within(111.84e-3, at_22)]),
                "the printed values are those of one layout; the best power depends on the layout"),
        Finding("Algorithm 6 finds 22.45 dBm with 111.49 ms",
                f"{spread(level['algorithm6'], 'dBm', 1, 2)} with {spread(best['algorithm6'], 'ms', 1e3, 2)}",
                all_or_some([_within(22.45, level["algorithm6"]), _within(111.49e-3, best["algorithm6"])]),
                f"the exact best common power is {np.nanmax(loss):.2f} % faster at most"),
        Finding("optimising the power makes a round 0.3 % shorter than the best whole dBm value",
                f"shorter by {spread(gain, '%', 1, 3)}, at most {np.nanmax(gain):.3f} %; a power for each device "
                f"gains another {spread((1 - best['sao-joint'] / common) * 100, '%', 1, 2)}",
                "agrees in part" if np.nanmedian(gain) < 0.1 else "agrees",
                "it is never longer, but the delay is flat around the best power"),
    ]


def _within(printed: float, values: Floats) -> bool:
    low, high = np.nanpercentile(values, [25, 75])
    return bool(low <= printed <= high)


def _draw_powers(powers: Sequence[float], scan: Floats, best: Delays, level: Delays) -> Figure:
    figure, panels = canvas(11, 4.2, 1, 2, width_ratios=[2, 1])
    left, right = panels[0]
    band(left, powers, scan * 1e3, "sao")
    for method in ("algorithm6", "sao-common-power"):
        left.scatter(np.nanmedian(level[method]), np.nanmedian(best[method]) * 1e3, marker="*", s=130, zorder=5,
                     color=COLOURS[method], label=f"{NAMES[method]} (median)")
    left.set(xlabel="transmit power of every device (dBm)", ylabel="delay of a round (ms)", title="Budget 30 mJ")
    left.legend()
    common = level["sao-common-power"]
    right.hist(common[np.isfinite(common)], bins=np.arange(19, 23.1, 0.5), color=COLOURS["sao-common-power"],
               edgecolor="white")
    right.set(xlabel="best common power (dBm)", ylabel="layouts", title="It differs from layout to layout")
    right.yaxis.get_major_locator().set_params(integer=True)
    return figure
