"""Beyond the paper: what its claims come to when computing takes what phones need for the model."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from netsim.base.figures import Figure
from netsim.base.types import Floats
from netsim.paper.plots import COLOURS, canvas, quartiles, spread
from netsim.paper.random_layouts import Table, by_layout, over_sao, plan_of, summarized
from netsim.paper.report import Finding, Report, all_or_some, markdown
from netsim.paper.reproduce import Context
from netsim.sample_problem import sample_problem
from netsim.scenario import Scenario, load_scenario

LAYOUTS, QUICK = 100, 5
SAMPLES, EPOCHS = 100, 5
METHODS: dict[str, dict[str, Any]] = {
    "sao": {}, "equal": {}, "fedl": {"lambda": "tuned"}, "tdma": {}, "sao-adaptive": {}}
DRAWN = {**COLOURS, "tdma": "#cc79a7", "sao-adaptive": "#56b4e9"}
PAPER, SMALL, MIDDLE, LARGE = "paper", "fashion-cnn", "GoogLeNet", "ResNet50"
PHONES = (SMALL, MIDDLE, LARGE)
Row = dict[str, Any]


@lru_cache(maxsize=8)
def network(name: str) -> dict[str, Any]:
    """Return parameters and FLOP per sample of a network, on images of 28x28 or 32x32 pixels and ten classes."""
    from netsim.learning.flops import describe_model, describe_torchvision

    if name == MIDDLE:
        return describe_torchvision("googlenet", (3, 32, 32), 10, aux_logits=False, init_weights=False)
    return describe_torchvision("resnet50", (3, 32, 32), 10) if name == LARGE else describe_model(name)


def setting(name: str) -> Scenario:
    """Return the paper's cell, or `phones` with computing and uploads of a network."""
    if name == PAPER:
        return load_scenario("paper")
    counted = network(name)
    return load_scenario("phones", {
        "learning.flops_per_sample": float(counted["flops_per_sample"]), "population.phone.samples": SAMPLES,
        "learning.bits": f"{32 * counted['parameters']} bit", "learning.local_epochs": EPOCHS})


def measured(name: str, seed: int) -> list[Row]:
    """Return the plans of all methods for one layout: a random cohort of ten."""
    problem = sample_problem(setting(name), seed).problem
    rows: list[Row] = []
    for method, options in METHODS.items():
        plan = plan_of(problem, method, **options)
        if plan is not None:
            share = float((problem.cycles / problem.cpu_max_hz).max()) / plan.round_s
            rows.append({"cell": name, "layout": seed, "method": method, "round_s": plan.round_s,
                         "energy_j": plan.energy_j, "compute_share": share, "over_budget": int(plan.over_budget.sum())})
    return rows


def real_devices(context: Context) -> Report:
    """Report rounds and energies of five methods, in the paper's cell and with three networks on measured phones."""
    count = context.count(LAYOUTS, QUICK)
    cells = (PAPER, *PHONES)
    rows = [row for name in cells for seed in range(count) for row in measured(name, seed)]
    rounds, energies, shares = (by_layout(rows, column, cells, METHODS, count)
                                for column in ("round_s", "energy_j", "compute_share"))
    return Report(
        findings=_findings(rounds, energies, shares), how=_how(rounds, energies, shares, count), rows=rows,
        summary={name: {method: {**summarized(rounds, energies, name, method), "compute_share": quartiles(
            shares[name][method])} for method in METHODS} for name in cells},
        figure=_drawn(rounds, energies, shares))


def _findings(rounds: Table, energies: Table, shares: Table) -> list[Finding]:
    def median(method: str, cell: str) -> float:
        return float(np.median(over_sao(rounds, cell, method)))

    def took(method: str, digits: int, *, energy: bool = False) -> str:
        words = [f"{cell}: {spread(over_sao(rounds, cell, method), digits=digits)} times sao's round" + (
            f" with {spread(over_sao(energies, cell, method), digits=2)} times the energy" if energy else "")
            for cell in (*PHONES, PAPER)]
        return "; ".join(words)

    computing = {cell: spread(shares[cell]["sao"], "%", 100.0) for cell in (*PHONES, PAPER)}
    faster = [median("tdma", cell) < 1.0 for cell in PHONES]
    return [
        Finding("the slowest device computes for more of a round than in the paper's cell, whatever the model",
                "; ".join(f"{cell}: {share} of sao's round" for cell, share in computing.items()),
                all_or_some([bool(np.nanmedian(shares[cell]["sao"]) > np.nanmedian(shares[PAPER]["sao"]))
                             for cell in PHONES]),
                "in the paper's cell computing is about 100 times cheaper than phones need for its network"),
        Finding("equal bands cost as much of a round on phones as in the paper's cell", took("equal", 3),
                all_or_some([median("equal", cell) >= median("equal", PAPER) for cell in PHONES])),
        Finding("one after the other with the whole band (tdma) is shorter than the best fixed bands, as in the "
                "paper's cell", took("tdma", 3, energy=True), all_or_some(faster),
                "" if all(faster) else "devices of different speeds end their computing at different times"),
        Finding("bands that change in time (sao-adaptive) shorten sao's round by more than 1 %",
                took("sao-adaptive", 4, energy=True),
                all_or_some([median("sao-adaptive", cell) < 0.99 for cell in PHONES])),
        Finding("FEDL, its weight tuned so that budgets are kept, is as long as the exact optimum to 1 %",
                took("fedl", 4), all_or_some([median("fedl", cell) < 1.01 for cell in PHONES])),
    ]


def _how(rounds: Table, energies: Table, shares: Table, count: int) -> str:
    sizes = ", ".join(f"{name} with {network(name)['parameters']:,} parameters and "
                      f"{network(name)['flops_per_sample']:,} FLOP per sample" for name in PHONES)
    header = ["cell", "method", "plans", "round (s)", "over sao's", "energy over sao's", "computing"]
    lines = [[cell, method, str(int(np.isfinite(rounds[cell][method]).sum())),
              spread(rounds[cell][method], "", 1.0, 3), spread(over_sao(rounds, cell, method), "", 1.0, 3),
              spread(over_sao(energies, cell, method), "", 1.0, 2), spread(shares[cell][method], "%", 100.0, 0)]
             for cell in rounds for method in METHODS]
    return (f"{count} random cohorts of ten, each planned by five methods: in the scenario `paper`, and in `phones` "
            f"(measured profiles, LTE radio, 100 J a round) with {SAMPLES} samples a device and {EPOCHS} local epochs "
            f"of three networks on images of 28x28 or 32x32 pixels: {sizes}. Uploads have 32 bits a parameter. "
            "Computing is what the slowest device needs at its highest clock, of the round. Medians and quartiles over "
            "layouts.\n\n" + "\n".join(markdown(header, lines)))


def _drawn(rounds: Table, energies: Table, shares: Table) -> Figure:
    figure, panels = canvas(9.0, 3.4, 1, 3)
    drawn: dict[str, Callable[[str, str], Floats]] = {
        "round over sao's": lambda cell, method: over_sao(rounds, cell, method),
        "energy over sao's": lambda cell, method: over_sao(energies, cell, method),
        "computing of the slowest / round": lambda cell, method: shares[cell][method]}
    for panel, (title, values) in zip(panels[0], drawn.items(), strict=True):
        for k, method in enumerate(METHODS):
            found = np.array([np.nanpercentile(values(cell, method), [25, 50, 75]) for cell in rounds])
            x = np.arange(len(found)) + 0.14 * (k - 2)
            panel.errorbar(x, found[:, 1], np.abs(found[:, [0, 2]] - found[:, 1:2]).T, fmt="o", markersize=3.5,
                           color=DRAWN[method], label=method, linewidth=1)
        panel.set_xticks(np.arange(len(rounds)), list(rounds), fontsize="x-small")
        panel.set_title(title, fontsize="medium")
    panels[0][2].set_ylim(0.0, 1.05)
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False,
                  fontsize="small")
    return figure
