"""Computing as phones need it: what is committed follows from its rows, and comes out again."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from netsim.paper.real_devices import METHODS, PAPER, PHONES, measured, network

STORED = Path(__file__).parents[2] / "results" / "beyond" / "real-devices"


def test_the_summary_follows_from_the_rows():
    with (STORED / "numbers.csv").open() as file:
        rows = list(csv.DictReader(file))
    summary = json.loads((STORED / "numbers.json").read_text())["summary"]
    for cell in (PAPER, *PHONES):
        sao = {row["layout"]: float(row["round_s"]) for row in rows if (row["cell"], row["method"]) == (cell, "sao")}
        for method in METHODS:
            found = [float(row["round_s"]) / sao[row["layout"]] for row in rows
                     if (row["cell"], row["method"]) == (cell, method) and row["layout"] in sao]
            assert summary[cell][method]["round_over_sao"]["median"] == pytest.approx(np.median(found))


@pytest.mark.slow
def test_stored_layouts_come_out_again():
    with (STORED / "numbers.csv").open() as file:
        rows = list(csv.DictReader(file))
    for cell in (PAPER, *PHONES):
        for row in measured(cell, 7):
            stored = next(each for each in rows if (each["cell"], each["layout"], each["method"]) == (
                cell, "7", row["method"]))
            assert float(stored["round_s"]) == pytest.approx(row["round_s"], rel=1e-4)


def test_sizes_of_the_networks():
    assert [network(name)["parameters"] for name in PHONES[:1]] == [19_522]
