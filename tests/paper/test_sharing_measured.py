"""The band shared in time, measured: what is committed is what an independent study found, and comes out again."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from netsim.paper.reproduce import BEYOND, Context, chosen, command, reproduce
from netsim.paper.time_varying_bandwidth import NAMES, SETTINGS, measured

STORED = Path(__file__).parents[2] / "results" / "beyond" / "sharing"
CELLS = tuple(SETTINGS)
ROUNDS_MS = {"paper": (120.1, 129.5, 143.1), "30 mJ": (102.4, 110.2, 115.5), "heavy": (222.8, 241.4, 261.7),
             "large": (170.8, 180.7, 189.9), "large, 30 mJ": (141.6, 147.4, 152.8)}
OVER_SAO = {      # medians of the round over that of sao, in the five cells, found independently
    "algorithm5": (1.000, 1.000, 1.831, 1.000, 1.000), "equal": (.979, .970, .969, .904, .870),
    "adaptive": (.979, .970, .934, .900, .862), "tdma": (.964, .958, 1.316, .808, .946),
    "sao-adaptive": (.963, .956, .929, .777, .785), "bound": (.961, .956, .929, .775, .783),
    "solo": (.960, .954, .486, .765, .757),
}
LIMITED = {"tdma at 7.4 bit/s/Hz": .967, "tdma at 5.55 bit/s/Hz": .976, "tdma at 5.55 bit/s/Hz, 2 ms": .980}


@pytest.fixture(scope="module")
def summary() -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    return json.loads((STORED / "numbers.json").read_text())["summary"]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    with (STORED / "numbers.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_rounds_of_fixed_bands(summary):
    for cell, expected in ROUNDS_MS.items():
        found = summary[cell]["sao"]["round_s"]
        assert [1e3 * found[name] for name in ("lower_quartile", "median", "upper_quartile")] == pytest.approx(
            expected, abs=0.06)
        assert found["count"] == (98 if cell == "heavy" else 100)


@pytest.mark.parametrize("method", OVER_SAO)
def test_medians_are_those_found_independently(summary, method):
    found = [summary[cell][method]["round_over_sao"]["median"] for cell in CELLS]
    assert found == pytest.approx(OVER_SAO[method], abs=0.005)


def test_what_is_left_if_the_rate_is_capped(summary, rows):
    for method, median in LIMITED.items():
        assert summary["paper"][method]["round_over_sao"]["median"] == pytest.approx(median, abs=0.0006)
    assert [len(longer(rows, method)) for method in LIMITED] == [3, 11, 26]


def longer(rows: list[dict[str, str]], method: str, cell: str = "paper") -> list[str]:
    """The layouts in which a method is longer than fixed bands."""
    sao = {row["layout"]: float(row["round_s"]) for row in rows if (row["cell"], row["method"]) == (cell, "sao")}
    return [row["layout"] for row in rows if (row["cell"], row["method"]) == (cell, method)
            and float(row["round_s"]) > sao[row["layout"]]]


def test_promises_are_kept_in_every_layout(rows):
    for cell in CELLS:
        assert longer(rows, "adaptive", cell) == longer(rows, "sao-adaptive", cell) == []
    assert longer(rows, "tdma") == []
    for method in ("adaptive", "tdma", "sao-adaptive", "sao"):
        assert sum(int(row["over_budget"]) for row in rows if row["method"] == method) == 0
    by_layout: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        by_layout.setdefault((row["cell"], row["layout"]), {})[row["method"]] = float(row["round_s"])
    hair = 1 + 1e-6
    for found in by_layout.values():
        assert found["solo"] <= found.get("bound", found["solo"]) * hair
        if "bound" in found:
            assert found["bound"] <= found["sao-adaptive"] * hair
            assert found["sao-adaptive"] <= min(found["tdma"], found["adaptive"]) * hair
    met = [found for (cell, _), found in by_layout.items()
           if cell == "paper" and found["tdma"] <= found["solo"] * hair]
    assert len(met) == 77


def test_a_layout_comes_out_as_stored(rows):
    stored = {row["method"]: row for row in rows if (row["cell"], row["layout"]) == ("paper", "0")}
    again = {str(row["method"]): row for row in measured("paper", 0)}
    assert set(again) == set(stored) == set(NAMES)
    for method, row in again.items():
        assert row["round_s"] == pytest.approx(float(stored[method]["round_s"]), rel=1e-6)
        if stored[method]["energy_j"]:
            assert row["energy_j"] == pytest.approx(float(stored[method]["energy_j"]), rel=1e-6)


def test_it_is_no_target_of_the_paper_and_has_a_folder_of_its_own(tmp_path):
    assert "sharing" not in chosen(["all"])
    assert chosen(["sharing", "fig5"]) == ["fig5", "sharing"]
    context = Context(tmp_path / "paper", beyond=tmp_path / "beyond")
    assert context.folder("sharing") == tmp_path / "beyond"
    assert context.folder("fig5") == tmp_path / "paper"
    assert command("sharing", context) == "netsim reproduce sharing"
    assert list(BEYOND) == ["sharing", "asynchronous", "real-devices"]


@pytest.mark.slow
def test_a_small_version_is_written(tmp_path):
    [report] = reproduce(["sharing"], Context(tmp_path / "quick", quick=True, trials=1, workers=1))
    assert {finding.verdict for finding in report.findings} == {"agrees"}
    assert "| sao-adaptive |" in (tmp_path / "quick" / "sharing" / "README.md").read_text()
