"""Traces of FedScale and FLASH, and recorded files that a written scenario names by path and hash."""

import json
import os
import pickle
import tomllib
from pathlib import Path

import pytest

from netsim import simulate
from netsim.base.errors import InputError
from netsim.scenario import Scenario
from netsim.scenario.recorded_traces import fedscale_behaviour, flash_states, read_pickle, sampled

CAPACITY = {7: {"computation": 10.0, "communication": 5_000.0}, 9: {"computation": 50, "communication": 800}}
BEHAVIOUR = {"a": {"duration": 900, "active": [0, 300], "inactive": [100, 420], "finish_time": 1000, "model": "x"},
             "b": {"duration": 500, "active": [50], "inactive": [60], "finish_time": 70, "model": "y"}}
MESSAGES = ("2020-01-29 00:10:00\tscreen_lock\n2020-01-29 00:20:00\tWIFI\n2020-01-29 00:30:00\tbattery_charged_on\n"
            "2020-01-29 00:31:00\t57%\n2020-01-29 01:30:00\tscreen_unlock\n2020-01-29 02:00:00\tscreen_lock\n"
            "2020-01-29 03:00:00\t4G\n")


def world(**population):
    return Scenario.of({
        "cell": {"radius": "300 m", "bandwidth": "5 MHz", "link": {"model": "dedicated"}},
        "population": [{"name": "phone", "radio": {"power": "200 mW"}, "budget": "100 J", "samples": 10, **population}],
        "learning": {"bits": "1 Mbit"}, "selection": {"method": "fedavg", "cohort": 1}, "end": {"rounds": 2}})


@pytest.fixture
def stored(tmp_path):
    def write(content, name="trace", protocol=4):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content, protocol=protocol))
        return str(path)

    return write


def test_capacities_of_fedscale_by_hand(stored):
    scenario = world(devices={"file": stored(CAPACITY), "format": "fedscale", "sample": 2})
    run = simulate(scenario, seed=1)
    times = {round(row["t1"] - row["t0"], 6) for row in run.jobs.iter_rows(named=True)}
    # three times the inference latency for 10 samples, the model down and up: 1 Mbit each
    assert times <= {round(0.3 + 0.4, 6), round(1.5 + 2.5, 6)}
    assert set(run.devices["kind"]) == {"fedscale"}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_of_every_protocol(stored, protocol):
    assert read_pickle(Path(stored(CAPACITY, protocol=protocol))) == CAPACITY


def test_behaviour_of_fedscale_repeats_by_device(stored):
    intervals = fedscale_behaviour(Path(stored(BEHAVIOUR)), 2, 0)
    assert sorted(intervals, key=lambda each: each["period"]) == [
        {"on": [50.0], "off": [60.0], "period": 70.0}, {"on": [0.0, 300.0], "off": [100.0, 420.0], "period": 1000.0}]


def test_a_device_is_away_between_its_intervals_in_every_period(stored):
    table = {"model": "recorded", "intervals": {"file": stored({"b": BEHAVIOUR["b"]}), "format": "fedscale"}}
    scenario = world(count=1, availability=table, radio={"power": "200 mW", "rate": "1 Mbit/s"},
                     cpu={"min": "1 GHz", "max": "1 GHz", "cycles_per_sample": 1e8})       # 1 s, then 1 s of upload
    rounds = simulate(scenario.with_({"end.rounds": 6}), seed=1).rounds
    assert rounds["t1"].to_list() == pytest.approx([52.0, 54.0, 56.0, 58.0, 60.0, 122.0])


def test_states_of_flash_by_hand(tmp_path):
    (tmp_path / "states.json").write_text(json.dumps({"x": {"messages": MESSAGES, "model": "m"}}))
    assert flash_states(tmp_path / "states.json", 1, 0) == [{"on": [1800.0, 7200.0], "off": [5400.0, 10800.0]}]


def test_samples_repeat_only_where_there_are_too_few():
    clients = {str(number): {} for number in range(10)}
    assert sorted(sampled(clients, 10, 3)) == sorted(clients)
    assert sampled(clients, 4, 3) == sampled(clients, 4, 3) != sampled(clients, 4, 4)
    assert len(set(sampled(clients, 25, 1)[:10])) == 10


class Runs:
    def __reduce__(self):
        return os.mkdir, ("executed",)


@pytest.mark.parametrize("content", [
    pickle.dumps(Runs()), pickle.dumps({1: Runs()}), b"cos\nsystem\n(S'mkdir executed'\ntR.", b"", b"\x80\x04",
    b"\x80\x04r\xff\xff\xff\xff.", b"\x80\x05\x95\xff\xff\xff\xff\xff\xff\xff\x7f.", b"not a pickle",
    pickle.dumps({1: {2, 3}}), pickle.dumps([1, 2]), pickle.dumps({}), pickle.dumps({1: {"computation": "fast"}}),
    pickle.dumps({1: {"computation": 1.0, "communication": -1.0}}),
    pickle.dumps({1: {"computation": float("nan"), "communication": 1.0}}),
])
def test_hostile_and_damaged_files_are_refused_and_nothing_runs(stored, content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="trace") as refused:
        world(devices={"file": stored(content), "format": "fedscale", "sample": 2})
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(("table", "words"), [
    ({"format": "fedscal", "sample": 2}, ["fedscale"]), ({"format": ["csv"], "sample": 2}, ["format"]),
    ({"format": "fedscale"}, ["sample"]),
    ({"format": "fedscale", "sample": 0}, ["sample"]), ({"format": "fedscale", "sample": 2, "seed": -1}, ["seed"]),
    ({"format": "fedscale", "sample": 2, "colour": 1}, ["colour"]),
    ({"format": "fedscale", "sample": 2, "sha256": "00"}, ["sha256"]),
])
def test_refused(stored, table, words):
    with pytest.raises(InputError) as refused:
        world(devices={"file": stored(CAPACITY), **table})
    assert all(word in str(refused.value) for word in words), str(refused.value)


@pytest.mark.slow
def test_a_large_recording_is_named_by_path_and_hash(tmp_path, monkeypatch):
    lines = ["device,on,off", *(f"{device},{20 * k},{20 * k + 10}" for device in range(300) for k in range(20))]
    (tmp_path / "intervals.csv").write_text("\n".join(lines))
    scenario = world(count=300, availability={"model": "recorded", "intervals": str(tmp_path / "intervals.csv")},
                     radio={"power": "200 mW", "rate": "1 Mbit/s"},
                     cpu={"min": "1 GHz", "max": "1 GHz", "cycles_per_sample": 1e6})
    text = scenario.to_toml()
    assert len(text) < 3_000
    assert "sha256" in text
    monkeypatch.chdir("/")
    again = Scenario.of(tomllib.loads(text))
    assert again.digest == scenario.digest
    assert pickle.loads(pickle.dumps(scenario)).digest == scenario.digest
    run = simulate(scenario, tmp_path / "run", seed=2)
    assert run.explain(1).round_s == pytest.approx(run.rounds["round_s"][0])
    (tmp_path / "intervals.csv").write_text("\n".join(lines[:-1]))
    with pytest.raises(InputError, match="sha256"):
        Scenario.of(tomllib.loads(text))


def test_a_small_recording_stays_in_the_file(tmp_path):
    (tmp_path / "intervals.csv").write_text("device,on,off\n0,0,10\n")
    scenario = world(count=1, availability={"model": "recorded", "intervals": str(tmp_path / "intervals.csv")},
                     radio={"power": "200 mW", "rate": "1 Mbit/s"},
                     cpu={"min": "1 GHz", "max": "1 GHz", "cycles_per_sample": 1e6})
    assert "intervals.csv" not in scenario.to_toml()
