"""Numbers, values and names as people read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netsim.base import units
from netsim.base.errors import describe_value, quoted, suggest, unknown
from netsim.base.html import cell, column_name
from netsim.base.pluralize import pluralize, times
from netsim.calibration.laws import listed
from netsim.calibration.page import interval
from netsim.calibration.prediction import interval_of


@pytest.mark.parametrize(("found", "text"), [
    (units.format(0.11184, "time"), "111.8 ms"),
    (units.computing(12.4), "12 s"), (units.computing(95.0), "1 min 35 s"), (units.computing(4000.0), "1 h 7 min"),
    (units.duration(32_640.0), "9 h 4 min"), (units.duration(150.0), "2 min 30 s"), (units.duration(90.0), "90 s"),
    (units.duration(432_000.0), "5 d"),
    (units.short_up(3.14159, 3), "3.15"),
    (pluralize(1, "device"), "1 device"), (pluralize(0, "device"), "0 devices"),
    (pluralize(1442, "entry", "entries"), "1,442 entries"),
    (times(1), "once"), (times(1000), "1,000 times"),
    (describe_value(3), "int 3"),
    (quoted("sao"), '"sao"'), (quoted(True), "true"), (quoted(0.5), "0.5"),
    (str(unknown("allocation.method", "soa", ["sao", "equal"])),
     'allocation.method: unknown name (found "soa"; expected equal or sao). Did you mean "sao"?'),
    (suggest("soa", ["equal", "sao"]), 'allowed: equal, sao; did you mean "sao"?'),
    (cell("round_s", 0.25), "250 ms"), (cell("arrived", 7), "7"), (cell("share_of_time", 0.5), "50.0 %"),
    (column_name("upload_s"), "upload time"), (column_name("energy_j"), "energy"),
    (column_name("cell.path_loss"), "cell.path_loss"),
    (listed(["a", "b", "c", "d", "e"]), "a, b, c and 2 more devices"), (listed(["a", "b"]), "a, b"),
    (interval({"value": 0.05, "low": 0.04, "high": 0.06}, "s"), "50 ms (40 ms to 60 ms)"), (interval(None, "s"), "-"),
])
def test_texts(found: str, text: str) -> None:
    assert found == text


def test_equal_runs_have_no_spread() -> None:
    expected: dict[str, Any] = {"value": 1.0, "low": 1.0, "high": 1.0}
    assert interval_of(np.ones(3)) == expected
