"""Runs come out as they did before the cell was rebuilt: see record.py for what is compared, and how it was made."""

from __future__ import annotations

import json
import math
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from draw_scenarios import ALLOCATION, SELECTION
from record import FILE, Case, cases, outcome, play

from netsim.base.platform_info import processor

pytestmark = pytest.mark.slow

CASES = cases()
BEFORE: dict[str, Any] = json.loads(FILE.read_text())
SAME_MACHINE = BEFORE["made_with"] == {"processor": processor(), "torch": version("torch")}
MEASURED = 1e-9               # of times and energies
FLAT = 1e-5                   # of energies under a common power: the round is flat around the best one
LEARNED_ELSEWHERE = 0.02      # of accuracies, where torch adds up in another order


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_run_comes_out_as_before(case: Case, tmp_path: Path) -> None:
    before, now = BEFORE["runs"][case.name], outcome(play(case, tmp_path))
    assert now.keys() == before.keys()
    if case.learning and not SAME_MACHINE:
        assert now.pop("accuracy") == pytest.approx(before.pop("accuracy"), abs=LEARNED_ELSEWHERE)
        del now["loss"], before["loss"]
    flat = 'method = "sao-common-power"' in case.text
    for name, values in before.items():
        assert len(now[name]) == len(values), name
        for place, (new, old) in enumerate(zip(now[name], values, strict=True)):
            assert alike(name, new, old, flat), f"{name}[{place}]: {old!r} before, {new!r} now"


def alike(name: str, new: Any, old: Any, flat: bool = False) -> bool:
    """Times and energies within rounding; outcomes, counts and what was learned to the last digit."""
    if flat and name.endswith("_j"):
        return math.isclose(new, old, rel_tol=FLAT, abs_tol=1e-15)
    if name.endswith(("_s", "_j", "gain")):
        return math.isclose(new, old, rel_tol=MEASURED, abs_tol=1e-15)
    return bool(new == old)


def test_every_run_is_compared() -> None:
    assert [case.name for case in CASES] == list(BEFORE["runs"])


def test_the_runs_meet_what_can_happen() -> None:
    ends: Counter[str] = Counter()
    for run in BEFORE["runs"].values():
        ends.update(run["share_outcome"])
        ends["infeasible"] += sum(run["dropped"]) - sum(end != "arrived" for end in run["share_outcome"])
    assert all(ends[end] >= 10 for end in ("arrived", "battery empty", "infeasible"))
    assert ends["deadline"] == 0         # a plan knows it; only another way to share the band than planned breaks it
    drawn = " ".join(case.text for case in CASES)
    words = [*ALLOCATION, *SELECTION, "rayleigh", "waves", "relax", "largest", "mains", "all", "cohort"]
    assert [word for word in words if f'"{word}"' not in drawn] == []
    for key in ("local_steps", "places", "devices", "gain_trace", "deadline", "time"):
        assert f"\n{key} = " in drawn


def test_a_millionth_of_a_percent_is_seen() -> None:
    assert alike("round_s", 1.0 + 1e-10, 1.0)
    assert not alike("round_s", 1.0 + 1e-8, 1.0)
    assert not alike("accuracy", 0.5 + 1e-15, 0.5)
