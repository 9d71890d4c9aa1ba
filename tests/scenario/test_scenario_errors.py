"""What is wrong with a scenario is said all at once, whatever it is; the rows of tests/refusals say how."""

import pickle
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_scenario import SMALL

from netsim.base.errors import InputError, SeveralInputErrors
from netsim.scenario import load_scenario, toml_text


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
