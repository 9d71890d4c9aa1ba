"""Fig. 6, 7 and 14: how long a round takes, against transmit power and against the energy budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netsim.allocation import Problem
from netsim.base.arrays import Floats
from netsim.base.counts import counted
from netsim.base.units import dbm_from_watts
from netsim.paper.layouts import LAYOUTS, QUICK_LAYOUTS, layouts, plan_of, round_times, with_budget, with_power
from netsim.paper.plots import COLOURS, NAMES, band, canvas, quartiles, spread
from netsim.paper.report import Finding, Report, all_or_some
from netsim.paper.reproduce import Context

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METHODS = ("sao", "algorithm5", "equal", "fedl")
OPTIONS = {"fedl": {"lambda": "tuned"}}
POWERS_DBM = tuple(range(10, 24))
BUDGETS_MJ = (30.0, 32.5, 35.0, 37.5, 40.0, 42.5, 45.0, 47.5, 50.0)
HOW = ("Layouts are the `paper` scenario under seeds from 0: ten devices of a hundred in a cell of 300 m, 20 MHz, 448 "
       "kbit, L C D with the calibrated values. FEDL's weight is tuned in each layout to the largest that keeps every "
       "budget.")


@dataclass(frozen=True, eq=False)
class Delays:
    """Seconds of a round by method: an array (settings, layouts), NaN where the method has no plan."""

    settings: Sequence[float]
    by_method: dict[str, Floats]

    def rows(self, name: str) -> list[dict[str, float | str]]:
        return [
            {name: setting, "layout": layout, "method": method, "round_s": float(seconds)}
            for method, table in self.by_method.items()
            for setting, line in zip(self.settings, table, strict=True)
            for layout, seconds in enumerate(line) if np.isfinite(seconds)
        ]

    def summary(self) -> dict[str, dict[str, object]]:
        return {method: {f"{setting:g}": quartiles(line) for setting, line in zip(self.settings, table, strict=True)}
                for method, table in self.by_method.items()}

    def beaten(self, method: str) -> tuple[int, int]:
        """In how many (setting, layout) the method is faster than `sao`, and in how many both have a plan."""
        sao, other = self.by_method["sao"], self.by_method[method]
        both = np.isfinite(sao) & np.isfinite(other)
        return int((other[both] < sao[both] * (1 - 1e-9)).sum()), int(both.sum())

    def ratio(self, method: str, setting: float) -> Floats:
        """How much longer than with `sao`, layout by layout."""
        place = list(self.settings).index(setting)
        ratio: Floats = self.by_method[method][place] / self.by_method["sao"][place]
        return ratio

    def infeasible(self, method: str) -> str:
        table = self.by_method[method]
        return f"{int(np.isnan(table).sum())} of {table.size}"


def measure(
    problems: list[Problem], settings: Sequence[float], change: Callable[[Problem, float], Problem],
) -> Delays:
    """All methods in all layouts under every setting."""
    def line(method: str, setting: float) -> Floats:
        changed = [change(problem, setting) for problem in problems]
        return round_times(changed, method, **OPTIONS.get(method, {}))

    return Delays(settings, {method: np.stack([line(method, setting) for setting in settings]) for method in METHODS})


def lowest(delays: Delays, unit: str) -> Finding:
    """The claim of Fig. 6 and Fig. 7; neither prints a number."""
    sao, (first, *_, last) = delays.by_method["sao"], delays.settings
    counts = {method: delays.beaten(method) for method in ("equal", "fedl")}
    words = "; ".join(f"{NAMES[method]} is faster in {faster} of {counted(both, 'case')}"
                      for method, (faster, both) in counts.items())
    better = sum(faster for faster, _ in counts.values())
    ends = f"{spread(sao[0], 'ms', 1e3)} at {first:g} {unit}, {spread(sao[-1], 'ms', 1e3)} at {last:g} {unit}"
    return Finding("SAO always has the lowest delay of the three methods", f"{words}. SAO takes {ends}",
                   "agrees" if better == 0 else "differs", "it is the exact optimum" if better == 0 else "")


def fig6(context: Context) -> Report:
    """Delay against transmit power at a budget of 30 mJ."""
    def losses(delays: Delays) -> str:
        first, *_, last = delays.settings
        loss = delays.ratio("algorithm5", first)
        return (f"takes {spread(loss, 'times')} as long as the optimum at {first} dBm (at worst {np.nanmax(loss):.1f} "
                f"times) and {spread(delays.ratio('algorithm5', last), 'times', 1, 3)} at {last} dBm")

    problems = [with_budget(problem, 30) for problem in layouts(_count(context))]
    delays = measure(problems, (10, 16, 20, 23) if context.quick else POWERS_DBM, with_power)
    return _against(delays, "power_dbm", "transmit power of every device (dBm)", "a budget of 30 mJ", losses(delays),
                    "where a CPU is at its limit it takes the bandwidth from the energy equality, but there the delay "
                    "binds", f"{counted(len(problems), 'layout')}, budget 30 mJ")


def fig7(context: Context) -> Report:
    """Delay against the budget at 23 dBm."""
    problems = [with_power(problem, 23) for problem in layouts(_count(context))]
    budgets = BUDGETS_MJ[::4] if context.quick else BUDGETS_MJ
    delays = measure(problems, budgets, with_budget)
    losses = "; ".join(f"{spread(delays.ratio('algorithm5', budget) * 100 - 100, '%', 1, 0)} at {budget:g} mJ"
                       for budget in budgets if budget in (30, 40, 50))
    return _against(delays, "budget_mj", "energy budget of every device (mJ)", "23 dBm",
                    f"is longer than the optimum by {losses}", "with more energy more CPUs reach their limit, where it "
                    "takes too little bandwidth", f"{counted(len(problems), 'layout')}, 23 dBm")


def _against(delays: Delays, column: str, xlabel: str, at: str, losses: str, why: str, what: str) -> Report:
    """The report on delays against what was varied, at a fixed other setting."""
    sao, other = delays.by_method["sao"], delays.by_method["algorithm5"]
    return Report(
        findings=[
            lowest(delays, xlabel[-4:-1].strip("(")),
            Finding("Algorithm 5 finds the optimum", f"as printed it {losses}",
                    "differs" if np.nanmax(other / sao) > 1.001 else "agrees", why),
        ],
        how=f"{what}; lines are medians, shades quartiles. {HOW}", rows=delays.rows(column), summary=delays.summary(),
        figure=_draw(delays, xlabel, f"Delay of a round at {at}"))


def fig14(context: Context) -> Report:
    """The best common transmit power: a scan, Algorithm 6, the exact one, and the best power for each device."""
    by_layout = {layout: with_budget(problem, 30) for layout, problem in enumerate(layouts(_count(context)))}
    by_layout = {layout: problem for layout, problem in by_layout.items() if plan_of(problem, "sao")}
    problems = list(by_layout.values())
    powers = (10, 16, 20, 22, 23) if context.quick else POWERS_DBM
    scan = np.stack([round_times([with_power(problem, power) for problem in problems], "sao") for power in powers])
    rows: list[dict[str, float | str]] = [
        {"layout": layout, "method": "sao", "power_dbm": float(power), "round_s": float(seconds)}
        for power, line in zip(powers, scan, strict=True)
        for layout, seconds in zip(by_layout, line, strict=True) if np.isfinite(seconds)]
    best: dict[str, Floats] = {}
    level: dict[str, Floats] = {}
    for method in ("algorithm6", "sao-common-power", "sao-joint"):
        plans = [plan_of(problem, method) for problem in problems]
        best[method] = np.array([np.nan if plan is None else plan.round_s for plan in plans])
        level[method] = np.array([np.nan if plan is None else dbm_from_watts(float(np.mean(plan.power_w)))
                                  for plan in plans])
        rows += [{"layout": layout, "method": method, "power_dbm": float(dbm), "round_s": float(seconds)}
                 for layout, dbm, seconds in zip(by_layout, level[method], best[method], strict=True)
                 if np.isfinite(seconds)]
    choice = np.array(powers)[np.nanargmin(scan, axis=0)]
    at_22 = scan[powers.index(22)]
    gain = (1 - best["sao-common-power"] / np.nanmin(scan, axis=0)) * 100
    loss = (best["algorithm6"] / best["sao-common-power"] - 1) * 100
    joint = (1 - best["sao-joint"] / best["sao-common-power"]) * 100

    figure, panels = canvas(11, 4.2, 1, 2, width_ratios=[2, 1])
    left, right = panels[0]
    band(left, powers, scan * 1e3, "sao")
    for method in ("algorithm6", "sao-common-power"):
        left.scatter(np.nanmedian(level[method]), np.nanmedian(best[method]) * 1e3, marker="*", s=130, zorder=5,
                     color=COLOURS[method], label=f"{NAMES[method]} (median)")
    left.set(xlabel="transmit power of every device (dBm)", ylabel="delay of a round (ms)", title="Budget 30 mJ")
    left.legend()
    right.hist(level["sao-common-power"][np.isfinite(level["sao-common-power"])], bins=np.arange(19, 23.1, 0.5),
               color=COLOURS["sao-common-power"], edgecolor="white")
    right.set(xlabel="best common power (dBm)", ylabel="layouts", title="It differs from layout to layout")
    right.yaxis.get_major_locator().set_params(integer=True)
    return Report(
        findings=[
            Finding("of the whole dBm values 22 is best, with 111.84 ms",
                    f"at 22 dBm {spread(at_22, 'ms', 1e3, 2)}; the best whole value is {_mode(choice):g} most often "
                    f"(22 in {int((choice == 22).sum())} of {counted(len(choice), 'layout')}; range {choice.min()} to "
                    f"{choice.max()})",
                    all_or_some([_mode(choice) == 22, _within(111.84e-3, at_22)]),
                    "the printed values are those of one layout; the best power depends on the layout"),
            Finding("Algorithm 6 finds 22.45 dBm with 111.49 ms",
                    f"{spread(level['algorithm6'], 'dBm', 1, 2)} with "
                    f"{spread(best['algorithm6'], 'ms', 1e3, 2)}",
                    all_or_some([_within(22.45, level["algorithm6"]), _within(111.49e-3, best["algorithm6"])]),
                    f"the exact best common power is {np.nanmax(loss):.2f} % faster at most"),
            Finding("optimising the power makes a round 0.3 % shorter than the best whole dBm value",
                    f"shorter by {spread(gain, '%', 1, 3)}, at most {np.nanmax(gain):.3f} %; a power for each device "
                    f"gains another {spread(joint, '%', 1, 2)}",
                    "agrees in part" if np.nanmedian(gain) < 0.1 else "agrees",
                    "it is never longer, but the delay is flat around the best power"),
        ],
        how=f"{counted(len(problems), 'layout')} with a plan, budget 30 mJ, powers from 10 to 23 dBm. {HOW}",
        rows=rows,
        summary={
            "scan": {f"{power:g}": quartiles(line) for power, line in zip(powers, scan, strict=True)},
            **{method: {"round_s": quartiles(best[method]), "power_dbm": quartiles(level[method])} for method in best},
            "algorithm6_loss_percent": quartiles(loss), "largest_algorithm6_loss_percent": float(np.nanmax(loss)),
        },
        figure=figure)


def _count(context: Context) -> int:
    return context.trials or (QUICK_LAYOUTS if context.quick else LAYOUTS)


def _mode(values: Floats) -> float:
    found, counts = np.unique(values, return_counts=True)
    return float(found[np.argmax(counts)])


def _within(printed: float, values: Floats) -> bool:
    """Whether a printed value lies between the quartiles over layouts."""
    low, high = np.nanpercentile(values, [25, 75])
    return bool(low <= printed <= high)


def _ticks(panel: Axes, values: Sequence[float]) -> None:
    """Plain numbers on a logarithmic axis, those within what is drawn."""
    low, high = panel.get_ylim()
    panel.set_yticks([value for value in values if low <= value <= high], minor=False)
    panel.set_yticklabels([f"{value:g}" for value in values if low <= value <= high])
    panel.minorticks_off()


def _draw(delays: Delays, xlabel: str, title: str) -> Figure:
    figure, panels = canvas(11, 4.2, 1, 2)
    left, right = panels[0]
    for method in METHODS:
        band(left, delays.settings, delays.by_method[method] * 1e3, method)
        if method != "sao":
            band(right, delays.settings, delays.by_method[method] / delays.by_method["sao"], method)
    left.set(xlabel=xlabel, ylabel="delay of a round (ms)", title=title, yscale="log")
    _ticks(left, (60, 80, 100, 150, 200, 300, 500, 1000))
    left.legend()
    right.set(xlabel=xlabel, ylabel="delay over that of the exact optimum", title="Layout by layout", yscale="log")
    _ticks(right, (1, 1.1, 1.2, 1.5, 2, 3, 5, 10))
    right.axhline(1, color=COLOURS["sao"], linewidth=1)
    right.legend()
    return figure
