"""Table II: parameters per layer and size of the three networks."""

from __future__ import annotations

from typing import Any

from netsim.base.figures import Figure
from netsim.paper.plots import canvas
from netsim.paper.report import Finding, Report
from netsim.paper.reproduce import Context
from netsim.paper.trials import DATA, TITLES

SHAPES = {"mnist": (1, 28, 28), "fashion-mnist": (1, 28, 28), "cifar10": (3, 32, 32)}
LAYERS = tuple(f"{layer}.{kind}" for layer in ("conv1", "conv2", "fc1", "fc2") for kind in ("weight", "bias"))
PRINTED = {      # Table II
    "mnist": (375, 15, 10500, 28, 100352, 224, 2240, 10, 113744),
    "cifar10": (1125, 15, 10500, 28, 210000, 300, 3000, 10, 224978),
    "fashion-mnist": (250, 10, 3000, 12, 15360, 80, 800, 10, 19522),
}
PRINTED_KB = {"mnist": 448, "cifar10": 882, "fashion-mnist": 79}


def table2(context: Context) -> Report:
    """Report the numbers of parameters of the networks; not random, so quick and full are the same."""
    from netsim.learning.batched_network import Network
    from netsim.models import build_model

    rows: list[dict[str, Any]] = []
    for dataset, shape in SHAPES.items():
        network = Network(build_model(DATA[dataset].model, shape, 10))
        counts = {name: part.stop - part.start for name, part in network.layers.items()}
        rows.append({"dataset": dataset, **{name: counts[name] for name in LAYERS}, "all": network.size,
                     "kibibytes": 4 * network.size / 1024, "printed_kb": PRINTED_KB[dataset]})
    same = sum(row[name] == printed for row in rows
               for name, printed in zip((*LAYERS, "all"), PRINTED[row["dataset"]], strict=True))
    sizes = ", ".join(f"{TITLES[row['dataset']]} {row['kibibytes']:.1f}" for row in rows)
    over = ", ".join(f"{row['printed_kb'] - row['kibibytes']:.1f}" for row in rows)
    return Report(
        findings=[
            Finding("27 counts of parameters", f"{same} of 27 are the same", "agrees" if same == 27 else "differs"),
            Finding("models of 448, 882 and 79 KB (MNIST, CIFAR-10, FashionMNIST)",
                    f"KiB at 4 bytes a parameter: {sizes}; the printed sizes are {over} more", "agrees",
                    "a stored file with its header; the delays of the paper fit 448 kbit and not 448 KB, see the docs"),
        ],
        how="The networks are built and their parameters counted.",
        rows=rows, summary={"same": same}, figure=_draw(rows))


def _draw(rows: list[dict[str, Any]]) -> Figure:
    figure, axes = canvas(9, 4)
    panel = axes[0, 0]
    for place, row in enumerate(rows):
        panel.bar([i + 0.27 * (place - 1) for i in range(9)], [row[name] for name in (*LAYERS, "all")], width=0.25,
                  label=TITLES[row["dataset"]])
    panel.set_yscale("log")
    panel.set_xticks(range(9), [*LAYERS, "all"], rotation=30, ha="right")
    panel.set(ylabel="parameters", title="Parameters by layer")
    panel.legend()
    return figure
