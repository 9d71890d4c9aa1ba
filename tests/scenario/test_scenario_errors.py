"""Whatever is wrong with a scenario, the message names file, key, value, what is allowed, and the nearest spelling."""

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_scenario import SMALL

from netsim.base.errors import InputError
from netsim.scenario import load_scenario, toml_text


@pytest.fixture
def complaint(tmp_path):
    """The message about a scenario made from SMALL by replacing text, with overrides."""
    def complaint(old="", new="", *overrides, text=SMALL):
        path = tmp_path / "small.toml"
        assert old in text
        path.write_text(text.replace(old, new) if old else text, encoding="utf-8")
        with pytest.raises(InputError) as caught:
            load_scenario(path, overrides)
        return str(caught.value)
    return complaint


@pytest.mark.parametrize(("old", "new", "expected"), [
    ('"1 MHz"', '"1 MHzz"', ['cell.bandwidth = "1 MHzz"', "allowed: GHz, Hz, MHz, kHz", 'did you mean "MHz"?']),
    ('"1 MHz"', "1e6", ["cell.bandwidth = 1000000.0", "bare number", '"20 MHz"']),
    ('"1 MHz"', '"1e90 MHz"', ["cell.bandwidth", "out of all proportion"]),
    ('"1 MHz"', '"-1 MHz"', ["cell.bandwidth", "must be above 0"]),
    ("radius", "raduis", ['cell.raduis = "100 m": unknown key', 'did you mean "radius"?', "cell.radius: is missing"]),
    ("count = 4", "count = -4", ["population.node.count = -4", "greater than or equal to 1"]),
    ("count = 4", "count = 2.5", ["population.node.count = 2.5", "whole number"]),
    ("count = 4", "count = true", ["population.node.count = true", "whole number"]),
    ("count = 4", "count = 99_999_999", ["population.node.count", "less than or equal to 10000000"]),
    ("count = 4", "", ["population.node", "give count, places or devices"]),
    ("count = 4", 'places = [["1 m"]]', ["population.node.places.0", "too few"]),
    ("count = 4", 'count = 3\nplaces = [["1 m", "1 m"]]', ["population.node.count = 3", "places has 1 entry"]),
    ('"uniform"', '"unifrm"', ["population.node.budget", "unknown dist", 'did you mean "uniform"?']),
    ('dist = "uniform", ', "", ["population.node.budget", "needs dist", "uniform"]),
    ('high = "2 mJ"', 'hihg = "2 mJ"', ["population.node.budget.hihg", 'did you mean "high"?']),
    ('high = "2 mJ"', 'high = "0.2 mJ"', ["population.node.budget", "low (1 mJ) must not be above high (0.2 mJ)"]),
    ('max = "1 GHz"', 'max = "0.1 GHz"', ["population.node.cpu", "min may be above max"]),
    ('radio = { power = "20 dBm" }', "", ["population.node.radio", "is missing"]),
    ("cohort = 2", "cohort = 5", ["selection.cohort = 5", "only 4 devices"]),
    ("cohort = 2", "", ["selection.cohort", "is missing"]),
    ("[learning]", '[learning]\ndataset = "digits"', ["learning.model", "is missing"]),
    ('bits = "10 kbit"', "", ["learning.bits", "without a dataset"]),
    ("[learning]", '[learning]\npartition = { kind = "majority", sigma = 1.5 }', ["learning.partition.sigma = 1.5"]),
    ("[learning]", '[learning]\npartition = { kind = "dirichelt" }', ["learning.partition", 'mean "dirichlet"?']),
    ("[learning]", "[learning]\nlocal_steps = 3\nlocal_iterations = 2", ["learning", "exclude each other"]),
    ("[learning]", "[learning]\nlearning_rate = nan", ["learning.learning_rate = nan", "finite"]),
    ("[learning]", '[learning]\nbatch_size = "ten"', ['learning.batch_size = "ten"', "whole number"]),
    ("[learning]", "[rounds]\nfirst = \"al\"\n[learning]", ['rounds.first = "al"', 'did you mean "all"?']),
    ("[cell]", "cell = 3\n[other]", ["cell = 3", "expected a table", "other", "unknown key"]),
    ("[cell]", "base = 3\n[cell]", ["base = 3"]),
    ("[cell]", 'base = "papr"\n[cell]', ['base = "papr"', 'did you mean "paper"?']),
    ("[cell]", 'base = "papr.toml"\n[cell]', ['base = "papr.toml"', "no file"]),
    ("[cell]", '[cell]\nfading = "raleigh"', ['cell.fading = "raleigh"', 'did you mean "rayleigh"?']),
    ("[cell]", '[cell]\ngain_trace = { db = [[1.0], [1.0, 2.0]] }', ["cell.gain_trace", "same number"]),
    ("[cell]", '[cell]\ngain_trace = { db = [[1.0]] }', ["cell.gain_trace", "1 column for 4 devices"]),
    ("[cell]", '[cell]\ngain_trace = "none.csv"', ["none.csv", "no such file"]),
    ("count = 4", 'devices = "none.csv"', ["none.csv", "no such file"]),
    ('"1 MHz"', "1 MHz", ["not valid TOML", "line 4"]),
])
def test_says_what_to_mend(complaint, old, new, expected):
    message = complaint(old, new)
    assert "small.toml" in message or "none.csv" in message
    for part in expected:
        assert part in message
    assert "pydantic" not in message


def test_all_mistakes_are_told_together(complaint):
    message = complaint("cohort = 2", "cohort = 0", 'cell.bandwidth=1 J', "population.node.count=0")
    assert len(message.splitlines()) == 3
    assert "small.toml: selection.cohort = 0" in message
    assert '--set: cell.bandwidth = "1 J"' in message
    assert "--set: population.node.count = 0" in message


def test_a_mistake_is_traced_to_the_base_file(tmp_path):
    (tmp_path / "lower.toml").write_text(SMALL.replace('"1 MHz"', '"1 MJ"'))
    upper = tmp_path / "upper.toml"
    upper.write_text('base = "lower.toml"\n[cell]\nradius = "1 mm"\n')
    with pytest.raises(InputError) as caught:
        load_scenario(upper)
    assert "upper.toml: cell.radius" in str(caught.value)
    assert "lower.toml: cell.bandwidth" in str(caught.value)


def test_base_files_in_a_circle(tmp_path):
    (tmp_path / "a.toml").write_text('base = "b.toml"\n')
    (tmp_path / "b.toml").write_text('base = "a.toml"\n')
    with pytest.raises(InputError, match="circle"):
        load_scenario(tmp_path / "a.toml")


def test_two_populations_of_one_name(complaint):
    block = SMALL[SMALL.index("[[population]]"):SMALL.index("[learning]")]
    assert 'the name "node"' in complaint(text=SMALL + block)


@pytest.mark.parametrize(("override", "expected"), [
    ("cell.bandwith=1MHz", 'did you mean "bandwidth"?'),
    ("cel.bandwidth=1MHz", 'did you mean "cell"?'),
    ("population.nod.count=1", 'did you mean "node"?'),
    ("population.count=1", "addressed by its name"),
    ("population=3", "addressed by its name"),
    ("population.node=3", "addressed by its name"),
    ("population.node.cuont=3", 'did you mean "count"?'),
    ("cell.bandwidth", "key.path=value"),
    ("cell bandwidth=3", "no key path"),
    ("=3", "no key path"),
    ("cell.bandwidth=", "expected a number and a unit"),
    ("a=1\nb=2", "a"),
    ("cell.radius.x=1", "found a table"),
    ("population.node.name=other", "--set population.node.name=other"),
])
def test_overrides_that_lead_nowhere(complaint, override, expected):
    assert expected in complaint("", "", override)


def test_names_and_paths_that_are_not_there(tmp_path):
    with pytest.raises(InputError, match='did you mean "quickstart"'):
        load_scenario("quikstart")
    with pytest.raises(InputError, match="no such file"):
        load_scenario(tmp_path / "none.toml")
    with pytest.raises(InputError, match="can't be read"):
        load_scenario(f"{tmp_path}/")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        load_scenario(tmp_path / "bytes.toml")
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(InputError, match="deep"):
        load_scenario(tmp_path / "deep.toml")


@pytest.mark.parametrize(("csv", "expected"), [
    ("x,y\n1 m,2 m\n3 m,4 mm\n", ['line 3, column "y": "4 mm"', '"mm" is no unit of length', "allowed: cm, km, m"]),
    ("x,y\n\n1 m,two\n", ['line 3, column "y": "two"', "expected a number and a unit"]),
    ("x,y,cycles_per_sample\n1 m,2 m,many\n", ['line 2, column "cycles_per_sample": "many"', "expected a number"]),
    ("x,y,samples\n1 m,2 m,0\n", ['line 2, column "samples": 0', "greater than or equal to 1"]),
    ("x,y\n1 m\n", ["line 2", "1 cell, but the first row has 2"]),
    ("x,y\n1 m,\n", ['line 2, column "y"', "is empty"]),
    ("x,yy\n1 m,2 m\n", ["line 1", 'unknown column "yy"', 'did you mean "y"?']),
    ("x,x\n1 m,2 m\n", ["line 1", '"x" is there twice']),
    ("x\n1 m\n", ["both x and y"]),
    ("x,y\n", ["no device"]),
    ("", ["is empty"]),
    ('x,y\n"1 m,2 m\n', ["fleet.csv"]),
    ("cpu_max\n2 GHz\n0.1 GHz\n", ['line 3, column "cpu_max": "0.1 GHz"', "cpu_min must not be above cpu_max"]),
    ("min_power\n1 W\n", ['line 2, column "min_power"', "must not be above max_power"]),
    ("battery\nmians\n", ['line 2, column "battery": "mians"', 'did you mean "mains"?']),
])
def test_a_broken_fleet_file(complaint, tmp_path, csv, expected):
    (tmp_path / "fleet.csv").write_text(csv, encoding="utf-8")
    message = complaint("count = 4", 'devices = "fleet.csv"')
    assert "fleet.csv" in message or "devices" in message
    for part in expected:
        assert part in message


def test_a_fleet_needs_what_the_table_does_not_say(complaint, tmp_path):
    (tmp_path / "fleet.csv").write_text("x,y\n1 m,2 m\n", encoding="utf-8")
    text = SMALL.replace("count = 4", 'devices = "fleet.csv"')
    assert "columns power" in complaint('radio = { power = "20 dBm" }', "", text=text)


def test_broken_gain_traces(complaint, tmp_path):
    (tmp_path / "gains.csv").write_text("a,b,c,d\n-90,-91,-92,-93\n-90,-91,x,-93\n", encoding="utf-8")
    assert 'line 3, column 3: "x"' in complaint("[cell]", '[cell]\ngain_trace = "gains.csv"')
    assert '"none"' in complaint("[cell]", '[cell]\nfading = "rayleigh"\ngain_trace = { db = [[1.0, 1.0, 1.0, 1.0]] }')


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


@pytest.mark.parametrize(("override", "told"), [
    ("population.thing.budget=1mJ", "population.thing.budget: has no effect: the devices are listed"),
    ("population.thing.cpu.max=1GHz", "population.thing.cpu.max: has no effect"),
    ("cell.shadowing=4dB", r"cell.shadowing: has no effect: the gains are recorded \(cell.gain_trace\)"),
])
def test_a_key_without_effect_is_refused(tmp_path, override, told):
    (tmp_path / "fleet.csv").write_text("budget,cpu_max\n20 mJ,1 GHz\n30 mJ,2 GHz\n")
    (tmp_path / "cell.toml").write_text("""
[cell]
radius = "300 m"
bandwidth = "10 MHz"
gain_trace = { db = [[-100.0, -95.0]] }
[[population]]
name = "thing"
devices = "fleet.csv"
cpu = { min = "0.2 GHz", max = "2 GHz", cycles_per_sample = 2e4 }
radio = { power = "23 dBm" }
[learning]
bits = "448 kbit"
[selection]
method = "fedavg"
cohort = 2
""")
    assert load_scenario(tmp_path / "cell.toml", ["cell.bandwidth=5MHz", "population.thing.cpu.min=0.1GHz"]).size == 2
    with pytest.raises(InputError, match=told):
        load_scenario(tmp_path / "cell.toml", [override])


def test_a_table_without_the_key_that_tells_its_form_names_that_key():
    with pytest.raises(InputError, match=r'node\.availability: expected a table with a model, such as \{ model = "'):
        load_scenario("tiny", ['population.node.availability={on="1 s",off="1 s"}'])
