"""Small worlds that once took minutes of CPU time: commands end within 20 s, with an answer or one message."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import commands

CPU_S = 20

CELL = """
[cell]
radius = "200 m"
bandwidth = "5 MHz"
{cell}
[[population]]
name = "phone"
count = {count}
cpu = {{ min = "150 MHz", max = "1.5 GHz", cycles_per_sample = {{ dist = "uniform", low = 2e4, high = 1e5 }} }}
radio = {{ power = "16 dBm" }}
samples = 200
budget = "{budget}"
{population}
[learning]
bits = "150 kbit"
[selection]
method = "fedavg"
cohort = {cohort}
[allocation]
method = "{method}"
sharing = "{sharing}"
{allocation}
[end]
rounds = {rounds}
"""
WEAK = """
[[population]]
name = "odd"
count = 1
cpu = { min = "150 MHz", max = "1.5 GHz", cycles_per_sample = 2e4 }
radio = { power = "5e-18 uW" }
samples = 200
budget = "1 kJ"
"""
FADES = 'fading = { model = "rayleigh", coherence = "29 ms" }'
SWITCHES = 'availability = { model = "on-off", on = "800 ms", off = "20 ms", work = "pause" }'
CHARGES = 'battery = "1 kJ"\ncharging = { power = "10 mW", start = "06:00", end = "22:00" }'


def world(folder: Path, count: int, rounds: int, method: str, **more: str) -> None:
    """Write a scenario; ``weak`` devices have a transmission power of 5e-18 uW and ``weak`` as further keys."""
    weak = more.pop("weak", None)
    more["population"] = more.get("population", "") + ("" if weak is None else WEAK + weak)
    given = {"cell": "", "budget": "60 mJ", "sharing": "planned", "allocation": "", **more}
    (folder / "world.toml").write_text(CELL.format(
        count=count, cohort=count + (weak is not None), rounds=rounds, method=method, **given), encoding="utf-8")


def ended(folder: Path, *words: str) -> int:
    """The exit code of a command, which has an answer or one message within the CPU time."""
    answer = commands().run(folder, *words, cpu_s=CPU_S)
    assert answer.returncode in (0, 2), answer.stderr.decode()[-2000:]
    assert b"Traceback" not in answer.stderr
    return answer.returncode


def played(folder: Path) -> int:
    return ended(folder, "run", "world.toml", "--no-learning", "--out", "run")


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["3 mJ", "60 mJ", "1 kJ"])
def test_explain_of_two_devices_and_two_rounds_with_fedl(tmp_path, budget):
    world(tmp_path, 2, 2, "fedl", allocation="lambda = 0.5", budget=budget)
    if played(tmp_path) == 0:
        assert ended(tmp_path, "explain", "run", "--json") == 0


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sao", "tdma"])
def test_critical_path_of_twelve_devices_in_a_fading_cell(tmp_path, method):
    world(tmp_path, 12, 1, method, sharing="adaptive", cell=FADES)
    assert played(tmp_path) == 0
    assert ended(tmp_path, "critical-path", "run", "--round", "1") == 0


@pytest.mark.slow
@pytest.mark.parametrize("count", [4, 10])
def test_report_of_four_rounds_with_a_search_for_the_best_plan(tmp_path, count):
    world(tmp_path, count, 4, "sao-adaptive", sharing="adaptive", cell='fading = "rayleigh"')
    assert played(tmp_path) == 0
    assert ended(tmp_path, "report", "run") == 0


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["planned", "adaptive", "tdma"])
@pytest.mark.parametrize(("cell", "weak", "code"), [
    ("", "", 0), (FADES, "", 2), ("", SWITCHES, 2), ("", CHARGES, 2)], ids=["steady", "fades", "switches", "charges"])
def test_run_of_six_devices_with_a_signal_that_takes_years(tmp_path, sharing, cell, weak, code):
    """An upload of 1e18 s is no event more in a steady cell; changes all along it cannot be computed."""
    world(tmp_path, 5, 1, "tdma", sharing=sharing, cell=cell, weak=weak, budget="1 kJ")
    assert played(tmp_path) == code
