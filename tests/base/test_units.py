"""Units: what is read, what is refused, and how values are printed."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.base import units


@pytest.mark.parametrize(("text", "dimension", "si"), [
    ("20 MHz", "frequency", 20e6),
    ("20MHz", "frequency", 20e6),
    (" 0.2  GHz ", "frequency", 2e8),
    ("30mJ", "energy", 0.03),
    ("3 Wh", "energy", 10_800.0),
    ("100 mW", "power", 0.1),
    ("30 dBm", "power", 1.0),
    ("0 dBW", "power", 1.0),
    ("300 m", "length", 300.0),
    ("-1.5e-1 km", "length", -150.0),
    ("8 dB", "decibels", 8.0),
    ("-90 dB", "gain", 1e-9),
    ("150 ms", "time", 0.15),
    ("2 min", "time", 120.0),
    ("448 kbit", "data size", 448e3),
    ("448 KB", "data size", 3_584_000.0),
    ("1 KiB", "data size", 8192.0),
    ("−174 dBm/Hz", "noise density", 10 ** -17.4 / 1e3),
    ("5 μs", "time", 5e-6),
])
def test_reads_values_with_units(text, dimension, si):
    assert units.parse(text, dimension) == pytest.approx(si, rel=1e-14)


def test_linear_units_lose_no_digit():
    assert units.parse("30 mJ", "energy") == units.parse("0.03 J", "energy") == 0.03
    assert units.parse("0.3 GHz", "frequency") == 3e8


@pytest.mark.parametrize(("value", "dimension", "text"), [
    (0.11184, "time", "111.8 ms"),
    (0.9999999, "time", "1 s"),
    (10_834.2, "time", "10834 s"),
    (0.03, "energy", "30 mJ"),
    (0.0, "energy", "0 J"),
    (math.inf, "energy", "inf J"),
    (2e7, "frequency", "20 MHz"),
    (448e3, "data size", "448 kbit"),
    (1e-9, "gain", "-90 dB"),
    (8.0, "decibels", "8 dB"),
    (-0.0215, "time", "-21.5 ms"),
    (3e-12, "energy", "0.003 nJ"),
    (1.767811e12, "energy", "1767811 MJ"),
    (3.53562e28, "energy", "3.536e22 MJ"),
    (-1e11, "time", "-1e11 s"),
    (2e-24, "time", "2e-15 ns"),
])
def test_prints_for_people(value, dimension, text):
    assert units.format(value, dimension) == text


@given(st.floats(1e-9, 1e60), st.sampled_from(["time", "energy", "frequency", "length", "power", "data size"]))
def test_what_is_printed_reads_back_to_four_digits(value, dimension):
    assert units.parse(units.format(value, dimension), dimension) == pytest.approx(value, rel=6e-4, abs=1e-9)


@given(st.floats(-150, 80))
def test_levels_and_watts_are_inverse(dbm):
    assert units.dbm_from_watts(units.watts_from_dbm(dbm)) == pytest.approx(dbm, abs=1e-9)


@pytest.mark.parametrize("dimension", units.DIMENSIONS)
def test_schema_pattern_takes_what_parse_takes(dimension):
    pattern = re.compile(units.pattern(dimension))
    for unit in units.DIMENSIONS[dimension]:
        assert pattern.search(f"1.5 {unit}")
        assert pattern.search(f"-2e3{unit}")
        assert not pattern.search(f"1 {unit}x")
    assert not pattern.search("1")
