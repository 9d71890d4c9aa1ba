"""What is wrong with a scenario is said all at once, whatever it is; the rows of tests/refusals say how."""

import pickle
import re
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_scenario import SMALL

from netsim.base.errors import InputError, SeveralInputErrors
from netsim.scenario import Scenario, load_scenario, toml_text


def test_all_mistakes_are_told_together(tmp_path):
    (tmp_path / "lower.toml").write_text(SMALL.replace("cohort = 2", "cohort = 0"))
    (tmp_path / "upper.toml").write_text('base = "lower.toml"\n[cell]\nradius = "1 mm"\n')
    with pytest.raises(SeveralInputErrors) as caught:
        load_scenario(tmp_path / "upper.toml", ["cell.bandwidth=1 J"])
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert [(each.source, each.key, each.code) for each in error.errors] == [
            (str(tmp_path / "upper.toml"), "cell.radius", "wrong-unit"), ("--set", "cell.bandwidth", "wrong-unit"),
            (str(tmp_path / "lower.toml"), "selection.cohort", "out-of-range")]
        assert str(error).splitlines() == [str(each) for each in error.errors]
        assert (error.key, error.code) == ("cell.radius", "wrong-unit")


leaves = st.one_of(
    st.none().map(lambda _: True), st.integers(-5, 5), st.floats(), st.text(max_size=6),
    st.sampled_from(["1 MHz", "3 mJ", "20 dBm", "auto", "mains", "uniform", "normal", "iid", "10 m"]))
keys = st.sampled_from([
    "cell", "population", "learning", "selection", "rounds", "end", "bandwidth", "radius", "name", "count", "budget",
    "cpu", "radio", "power", "dist", "low", "high", "kind", "method", "cohort", "devices", "places", "gain_trace",
    "db", "x"])
tables = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5), max_leaves=25)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(keys, tables, max_size=6), st.booleans())
def test_no_nonsense_gets_past_or_breaks_the_check(tmp_path, table, on_paper):
    """Any TOML table is a scenario, or a complaint; never another exception."""
    path = tmp_path / "wild.toml"
    text = ('base = "paper"\n' if on_paper else "") + toml_text.dumps(table)
    path.write_text(text, encoding="utf-8")
    with suppress(InputError):
        assert load_scenario(path).size >= 1


ABOVE, BELOW = "0.10000000000000002", "0.1"        # neighbours among doubles


@pytest.mark.parametrize("changes", [
    {"cpu": {"min": f"{ABOVE} GHz", "max": f"{BELOW} GHz", "cycles_per_sample": 2e4}},
    {"cpu": {"min": {"dist": "uniform", "low": "1 MHz", "high": f"{ABOVE} GHz"}, "max": f"{BELOW} GHz",
             "cycles_per_sample": 2e4}},
    {"radio": {"power": "0.1 W", "min_power": f"{ABOVE} W", "max_power": f"{BELOW} W"}},
    {"budget": {"dist": "uniform", "low": f"{ABOVE} J", "high": f"{BELOW} J"}},
    {"budget": {"dist": "normal", "mean": "1 J", "sd": "1 mJ", "min": f"{ABOVE} J", "max": f"{BELOW} J"}},
    {"cpu": None, "count": None, "devices": {"cpu_min": [f"{ABOVE} GHz"] * 2, "cpu_max": [f"{BELOW} GHz"] * 2,
                                             "cycles_per_sample": [2e4] * 2}},
], ids=["clock", "drawn clock", "power", "low", "min", "columns"])
def test_two_values_that_nearly_agree_are_shown_as_different(changes):
    phone = {"name": "phone", "cpu": {"min": "0.2 GHz", "max": "2 GHz", "cycles_per_sample": 2e4}, "count": 2,
             "radio": {"power": "20 dBm"}, "budget": "9 mJ", **changes}
    phone = {key: value for key, value in phone.items() if value is not None}
    with pytest.raises(InputError) as refusal:
        Scenario.of({"cell": {"radius": "300 m", "bandwidth": "5 MHz"}, "population": [phone],
                     "learning": {"bits": "448 kbit"}, "selection": {"method": "fedavg", "cohort": 2}})
    assert refusal.value.code == "out-of-range"
    shown = re.findall(r"\d[\d.]*", f"{refusal.value.found} {refusal.value.expected}")
    assert len(set(shown)) == 2, shown
