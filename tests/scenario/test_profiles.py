"""Device profiles: what they fill in, how they mix, where they come from, and what is refused."""

import csv
import json
from collections import Counter
from contextlib import suppress

import pytest

from netsim import simulate
from netsim.base.errors import InputError
from netsim.base.units import parse
from netsim.cli import main
from netsim.scenario import Scenario, load_scenario
from netsim.scenario.profiles import COLUMNS, load_profiles, shipped

CELL = {"cell": {"radius": "300 m", "bandwidth": "5 MHz"}, "learning": {"bits": "1 Mbit", "flops_per_sample": 1e6},
        "selection": {"method": "fedavg", "cohort": 1}, "end": {"rounds": 1}}
PHONE = {"name": "phone", "count": 2, "profile": "pixel-4", "budget": "10 J"}


def scenario(**population):
    counts = population.get("cpu", {}).get("cycles_per_sample", "auto") == "auto"
    learning = CELL["learning"] if counts else {"bits": "1 Mbit"}
    return Scenario.of({**CELL, "learning": learning, "population": [{**PHONE, **population}]})


def test_a_profile_fills_in_what_the_population_leaves_out():
    table = scenario().population[0]
    assert table.cpu.max == 2.84e9 == table.cpu.min          # measured at one clock
    assert (table.cpu.cycles_per_sample, table.cpu.flops_per_cycle) == ("auto", 1.39)
    assert table.battery == pytest.approx(2.8 * 3.7 * 3600)
    assert table.radio.power == pytest.approx(0.1995, rel=1e-3)
    assert table.name == "phone"
    assert table.profile is None


def test_keys_of_the_population_win():
    table = scenario(cpu={"min": "0.5 GHz", "cycles_per_sample": 3e4}, battery="mains").population[0]
    assert (table.cpu.min, table.cpu.max, table.cpu.cycles_per_sample) == (0.5e9, 2.84e9, 3e4)
    assert table.cpu.flops_per_cycle is None
    assert table.battery == "mains"
    assert scenario(cpu={"max": "1 GHz"}).population[0].cpu.min == 1e9


def test_a_scenario_with_profiles_is_written_out_and_loads_to_an_equal_one():
    given = scenario(profile={"pixel-4": 1, "nexus-s": 1})
    again = load_again(given)
    assert again == given
    assert again.digest == given.digest


def load_again(given):
    import tomllib

    return Scenario.of(tomllib.loads(given.to_toml()))


@pytest.mark.parametrize(("shares", "count", "expected"), [
    ({"pixel-4": 0.2, "nexus-s": 0.8}, 10, {"phone-pixel-4": 2, "phone-nexus-s": 8}),
    ({"pixel-4": 1, "nexus-s": 1, "redmi-note-7-pro": 1}, 10,
     {"phone-pixel-4": 4, "phone-nexus-s": 3, "phone-redmi-note-7-pro": 3}),
    ({"pixel-4": 0.001, "nexus-s": 1}, 10, {"phone-nexus-s": 10}),
])
def test_shares_are_rounded_to_whole_devices(shares, count, expected):
    assert {table.name: table.count for table in scenario(profile=shares, count=count).population} == expected


def test_a_change_of_the_mix_replaces_it():
    mixed = load_scenario("phones", {"population.phone.profile": {"pixel-4": 1.0}, "population.phone.count": 12})
    assert [(table.name, table.count) for table in mixed.population] == [("phone-pixel-4", 12)]


def test_own_profiles_from_a_file_and_from_a_package_that_is_not_imported(tmp_path, monkeypatch):
    folder = tmp_path / "ourphones"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise SystemExit('imported')")
    (folder / "own.csv").write_text("profile,key,value\ntest-phone,cpu.max,1.5 GHz\ntest-phone,cpu.flops_per_cycle,3\n"
                                    "test-phone,radio.power,20 dBm\ntest-phone,cpu.cycles_per_batch,2e6\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for place in (str(folder / "own.csv"), "ourphones:own.csv"):
        table = scenario(profile="test-phone", profiles=place).population[0]
        assert (table.cpu.max, table.cpu.flops_per_cycle, table.cpu.cycles_per_batch) == (1.5e9, 3, 2e6)
    assert "profiles" not in scenario(profile="test-phone", profiles=place).to_toml()


@pytest.mark.parametrize(("population", "words"), [
    ({"profile": "pixel-5"}, ["unknown", "pixel-4", "netsim devices"]),
    ({"profile": {"pixel-4": 1, "pixel": 1}}, ["pixel-4"]),
    ({"profile": {"pixel-4": -1}}, ["at least 0"]),
    ({"profile": {"pixel-4": 0}}, ["above 0"]),
    ({"profile": {}}, ["profile"]),
    ({"profile": 3}, ["profile"]),
    ({"profile": {"pixel-4": 1}, "count": 0}, ["count"]),
    ({"profile": "raspberry-pi-4", "radio": {"power": "20 dBm"}}, ["flops_per_cycle"]),      # no source gives them
    ({"profiles": "no-such.csv"}, ["no-such.csv"]),
    ({"profiles": "nosuchpackage:own.csv"}, ["nosuchpackage"]),
])
def test_refused(population, words):
    with pytest.raises(InputError) as refused:
        scenario(**population)
    assert all(word in str(refused.value) for word in words), str(refused.value)


@pytest.mark.parametrize(("text", "words"), [
    ("profile,key\na,cpu.max\n", ['"value"']),
    ("profile,key,value\na,cpu.max,\n", ["line 2"]),
    ("profile,key,value\na,count,3\n", ["line 2"]),
    ("profile,key,value,colour\na,cpu.max,1 GHz,red\n", ["licence"]),
    ("profile,key,value\na,cpu.max,1 GHz\na,cpu.max,2 GHz\n", ["line 3", "cpu.max"]),
    ("profile,key,value\na,cpu.max,fast\n", ["cpu.max", "frequency"]),
    ("profile,key,value\na,cpu.speed,1 GHz\n", ["speed"]),
])
def test_a_file_of_profiles_that_is_wrong(tmp_path, text, words):
    (tmp_path / "own.csv").write_text(text)
    with pytest.raises(InputError) as refused:
        scenario(profile="a", profiles=str(tmp_path / "own.csv"))
    assert all(word in str(refused.value) for word in words), str(refused.value)


def test_every_shipped_value_has_a_source_a_licence_and_brackets_its_uncertainty():
    with open(shipped(), newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    for row in rows:
        assert row["source"], row
        assert row["licence"], row
        assert bool(row["low"]) == bool(row["high"]), row
        if row["low"]:
            kind = {"cpu.max": "frequency", "radio.power": "power"}.get(row["key"])
            low, value, high = (parse(row[name], kind) if kind else float(row[name])
                                for name in ("low", "value", "high"))
            assert low <= value <= high, row


def test_flops_per_cycle_follow_from_the_measured_times():
    # FLASH: ms per batch of 10 of two networks, and the FLOP per sample that netsim counts for them
    for name, hertz, femnist_s, celeba_s in (("nexus-s", 1e9, 1.642, 5.392), ("redmi-note-7-pro", 2e9, 0.588, 1.355),
                                             ("pixel-4", 2.84e9, 0.179, 0.561)):
        found = next(value for value in load_profiles()[name] if value.key == "cpu.flops_per_cycle")
        high, low = 10 * 102_017_024 / femnist_s / hertz, 10 * 153_017_856 / celeba_s / hertz
        assert float(found.low) == pytest.approx(low, abs=0.005)
        assert float(found.high) == pytest.approx(high, abs=0.005)
        assert float(found.value) == pytest.approx((low * high) ** 0.5, abs=0.005)


def test_the_command_lists_profiles(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["netsim", "devices", "--json"])
    with suppress(SystemExit):
        main()
    found = {each["name"]: each["values"] for each in json.loads(capsys.readouterr().out)}
    assert set(found) == set(load_profiles())
    assert found["nexus-s"]["battery"]["value"] == "1500 mAh at 3.7 V"


@pytest.mark.slow
def test_phones_runs_end_to_end_and_its_comments_hold():
    run = simulate("phones", seed=3, learning=False)
    assert Counter(run.devices["kind"].to_list()) == {"phone-nexus-s": 53, "phone-redmi-note-7-pro": 46,
                                                      "phone-pixel-4": 1}
    assert set(run.devices["samples"]) == {14}
    assert run.jobs["bits"].to_list() == [32 * 113_744.0] * len(run.jobs)
    assert (run.jobs["energy_j"] <= run.jobs["budget_j"] * (1 + 1e-9)).all()
    assert run.summary["dropped"] == 0
    large = load_scenario(
        "phones", {"learning.bits": "358 Mbit", "learning.flops_per_sample": 217e6, "end.rounds": 3})
    jobs = simulate(large, seed=3, learning=False).jobs
    assert set(jobs["outcome"]) == {"arrived"}
