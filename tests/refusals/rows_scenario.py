"""Scenario files: wrong values, keys, files; keys without effect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from refusals import Provoke, Row, call, scenario, small
from small_scenario import SMALL

from netsim import Scenario, load_scenario
from netsim.devices.population import draw_population
from netsim.sample_problem import compare_methods
from netsim.validation import check_whole, refuse_untrained, validate


def fleet(csv: str, old: str = "count = 4", new: str = 'devices = "fleet.csv"') -> Provoke:
    return small(old, new, files={"fleet.csv": csv})


def gains(csv: str) -> Provoke:
    return small("[cell]", '[cell]\ngain_trace = "gains.csv"', files={"gains.csv": csv})


def raw(content: bytes) -> Provoke:
    def provoke(folder: Path) -> None:
        (folder / "small.toml").write_bytes(content)
        load_scenario(folder / "small.toml")

    return provoke


def arrays(**more: Any) -> Provoke:
    """Check a scenario that learns from arrays in a file: images of 8x8, or what else is said."""
    def provoke(folder: Path) -> None:
        images, labels = np.zeros((4, 8, 8), np.uint8), np.array([0, 1, 0, 1])
        np.savez(folder / "x.npz", **{"train_images": images, "train_labels": labels, "test_images": images,
                                      "test_labels": labels, **more})
        changes = ["learning.dataset=arrays", "learning.root=.", "selection.method=fedavg"]
        check_whole(load_scenario("quickstart", changes))

    return provoke


def based(*files: str) -> Provoke:
    """Load the last of some files, called 0.toml, 1.toml and so on."""
    def provoke(folder: Path) -> None:
        for place, text in enumerate(files):
            (folder / f"{place}.toml").write_text(text)
        load_scenario(folder / f"{len(files) - 1}.toml")

    return provoke


CELL: dict[str, Any] = {
    "cell": {"radius": "300 m", "bandwidth": "5 MHz"},
    "population": [{"name": "phone", "count": 2, "cpu": {"min": "0.2 GHz", "max": "2 GHz", "cycles_per_sample": 2e4},
                    "radio": {"power": "20 dBm"}, "budget": "9 mJ"}],
    "learning": {"bits": "448 kbit"}, "selection": {"method": "fedavg", "cohort": 2}}
TRACE = {"gain_trace": {"db": [[-95.0, -99.0]]}}
FLEET = {"cpu_min": ["1 GHz"] * 2, "cpu_max": ["2 GHz"] * 2, "cycles_per_sample": [2e4] * 2, "power": ["20 dBm"] * 2}
PLACES = [["9 m", "0 m"], ["0 m", "9 m"]]
RANGE = {"radio": {"power": "20 dBm", "min_power": "10 dBm", "max_power": "23 dBm"}}


def cell(phone: dict[str, Any] | None = None, changes: dict[str, Any] | None = None, **tables: Any) -> Provoke:
    """Prepare the cell above with more said of its phones and in its tables; what is None is left out."""
    def provoke(folder: Path) -> None:
        phones = {name: each for name, each in {**CELL["population"][0], **(phone or {})}.items() if each is not None}
        more = {name: {**CELL.get(name, {}), **table} for name, table in tables.items()}
        made = Scenario.of({**CELL, "population": [phones], **more}).with_(changes or {})
        validate(made, learning=made.trains)

    return provoke


ROWS: dict[str, Row] = {
    # values
    "unknown unit": (small('"1 MHz"', '"1 MHzz"'), "wrong-unit", "cell.bandwidth"),
    "bare number": (small('"1 MHz"', "1e6"), "wrong-unit", "cell.bandwidth"),
    "beyond all ranges": (small('"1 MHz"', '"1e90 MHz"'), "out-of-range", "cell.bandwidth"),
    "negative": (small('"1 MHz"', '"-1 MHz"'), "out-of-range", "cell.bandwidth"),
    "no text": (small("", "", "cell.bandwidth="), "malformed", "cell.bandwidth"),
    "too many decibels": (small("", "", "cell.shadowing=1e5 dB"), "out-of-range", "cell.shadowing"),
    "shadowing without a unit": (small("", "", "cell.shadowing=8"), "wrong-unit", "cell.shadowing"),
    "count below 1": (small("count = 4", "count = -4"), "out-of-range", "population.node.count"),
    "half a device": (small("count = 4", "count = 2.5"), "wrong-type", "population.node.count"),
    "truth for a number": (small("count = 4", "count = true"), "wrong-type", "population.node.count"),
    "too many devices": (small("count = 4", "count = 99_999_999"), "out-of-range", "population.node.count"),
    "too many devices in all": (call(Scenario.of, {**CELL, "population": [
        {**CELL["population"][0], "name": name, "count": 9_000_000} for name in "ab"]}), "out-of-range", "population"),
    "a number of thousands of digits": (scenario("tiny", "end.rounds=" + "9" * 5000), "wrong-type", "end.rounds"),
    "nan": (small("[learning]", "[learning]\nlearning_rate = nan"), "not-finite", "learning.learning_rate"),
    "a word for a number": (small("[learning]", '[learning]\nbatch_size = "ten"'), "wrong-type", "learning.batch_size"),
    "beyond its range": (small("[learning]", '[learning]\npartition = { kind = "majority", sigma = 1.5 }'),
                         "out-of-range", "learning.partition.sigma"),
    "a table for a value": (small("", "", "cell.radius.x=1"), "wrong-unit", "cell.radius"),
    "a value for a table": (small("[cell]", "cell = 3\n[other]"), "wrong-type", "cell"),
    "an empty name": (small("", "", "selection.method=''"), "empty", "selection.method"),
    "time of day": (scenario("tiny", "rounds.starts_at=25:00"), "malformed", "rounds.starts_at"),
    "short coherence": (small("", "", 'cell.fading={model="rayleigh",coherence="1 us"}'),
                        "out-of-range", "cell.fading.coherence"),
    "a slow radio": (small("", "", 'cell.rate={cap="0.01 bit/s/Hz"}'), "out-of-range", "cell.rate.cap"),
    # keys
    "unknown key": (small("radius", "raduis"), "missing", "cell.radius"),
    "unknown table": (small("", "", "cel.bandwidth=1MHz"), "unknown-key", "cel"),
    "unknown key of learning": (small("", "", "learning.batchsize=3"), "unknown-key", "learning.batchsize"),
    "missing key": (small("cohort = 2", ""), "missing", "selection.cohort"),
    "missing table": (small('radio = { power = "20 dBm" }', ""), "missing", "population.node.radio"),
    "missing tables": (call(Scenario.of, {"cell": CELL["cell"]}), "missing", "population"),
    "missing size": (small('bits = "10 kbit"', ""), "missing", "learning.bits"),
    "missing model": (small("[learning]", '[learning]\ndataset = "digits"'), "missing", "learning.model"),
    "no count": (small("count = 4", ""), "missing", "population.node.count"),
    "unknown word": (small("[learning]", '[rounds]\nfirst = "al"\n[learning]'), "unknown-name", "rounds.first"),
    "unknown word, or a table": (small("[cell]", '[cell]\nfading = "raleigh"'), "unknown-name", "cell.fading"),
    "unknown kind": (small("[learning]", '[learning]\npartition = { kind = "dirichelt" }'),
                     "unknown-name", "learning.partition.kind"),
    "no kind": (small("", "", 'population.node.availability={on="1 s",off="1 s"}'),
                "missing", "population.node.availability.model"),
    "unknown dist": (small('"uniform"', '"unifrm"'), "unknown-name", "population.node.budget.dist"),
    "no dist": (small('dist = "uniform", ', ""), "missing", "population.node.budget.dist"),
    "unknown key of a dist": (small('high = "2 mJ"', 'hihg = "2 mJ"'), "missing", "population.node.budget.high"),
    "unknown law": (small("", "", "cell.path_loss.model=log"), "unknown-name", "cell.path_loss.model"),
    "unknown aggregation": (small("", "", "learning.aggregation=median"), "unknown-name", "learning.aggregation"),
    "old and new name": (small("", "", "learning.server={kind='momentum'}", "learning.optimiser={kind='adam'}"),
                         "renamed", "learning.server"),
    "several": (small("cohort = 2", "cohort = 0", "cell.bandwidth=1 J", "population.node.count=0"),
                "wrong-unit", "cell.bandwidth"),
    # what does not fit together
    "low above high": (small('high = "2 mJ"', 'high = "0.2 mJ"'), "out-of-range", "population.node.budget.low"),
    "min above max": (small('max = "1 GHz"', 'max = "0.1 GHz"'), "out-of-range", "population.node.cpu.min"),
    "min above max, as drawn": (small('min = "0.5 GHz"', 'min = { dist = "normal", mean = "0.5 GHz", sd = "0.1 GHz", '
                                      'min = "0.4 GHz" }'), "out-of-range", "population.node.cpu.min"),
    "min above max by a little": (small('cpu = { min = "0.5 GHz", max = "1 GHz"', 'cpu = { min = "0.3931490001 GHz", '
                                        'max = "0.393149 GHz"'), "out-of-range", "population.node.cpu.min"),
    "draws below 0": (small('dist = "uniform", low = "1 mJ", high = "2 mJ"', 'dist = "normal", mean = "1 mJ", '
                            'sd = "1 mJ"'), "out-of-range", "population.node.budget"),
    "a level for a deviation": (small('power = "20 dBm"', 'power = { dist = "normal", mean = "20 dBm", sd = "1 dBm" }'),
                                "wrong-unit", "population.node.radio.power.sd"),
    "weights for values": (small('dist = "uniform", low = "1 mJ", high = "2 mJ"', 'dist = "choice", values = ["1 mJ"], '
                                 "weights = [1, 2]"), "wrong-length", "population.node.budget.weights"),
    "no weight": (small('dist = "uniform", low = "1 mJ", high = "2 mJ"', 'dist = "choice", values = ["1 mJ"], '
                        "weights = [0]"), "out-of-range", "population.node.budget.weights"),
    "half a place": (small("count = 4", 'places = [["1 m"]]'), "wrong-length", "population.node.places.0"),
    "places and count": (small("count = 4", 'count = 3\nplaces = [["1 m", "1 m"]]'),
                         "conflict", "population.node.count"),
    "devices and count": (cell({"devices": FLEET}), "conflict", "population.phone.devices"),
    "cohort above devices": (small("cohort = 2", "cohort = 5"), "more-than-devices", "selection.cohort"),
    "steps and passes": (small("[learning]", "[learning]\nlocal_steps = 3\nlocal_iterations = 2"),
                         "conflict", "learning.local_steps"),
    "a name twice": (call(Scenario.of, {**CELL, "population": CELL["population"] * 2}), "duplicate", "population"),
    "auto samples without data": (small("", "", "population.node.samples=auto"), "needs", "population.node.samples"),
    "uneven gains": (small("[cell]", "[cell]\ngain_trace = { db = [[1.0], [1.0, 2.0]] }"),
                     "wrong-length", "cell.gain_trace"),
    "gains of other devices": (small("[cell]", "[cell]\ngain_trace = { db = [[1.0]] }"),
                               "wrong-length", "cell.gain_trace"),
    "gains and fading": (cell(cell={**TRACE, "fading": "rayleigh"}), "conflict", "cell.fading"),
    "gains that go back in time": (cell(cell={"gain_trace": {"db": [[1.0, 1.0]] * 2, "t": [0, 0]}}),
                                   "out-of-range", "cell.gain_trace.t.1"),
    "gains that begin late": (cell(cell={"gain_trace": {"db": [[1.0, 1.0]] * 2, "t": [1, 2]}}),
                              "out-of-range", "cell.gain_trace.t.0"),
    "a channel and fading": (cell(cell={"channel": "a:b", "fading": "rayleigh"}), "conflict", "cell.channel"),
    "mobility and gains": (cell({"mobility": {"model": "random-waypoint", "speed": "1 m/s"}}, cell=TRACE),
                           "conflict", "cell.gain_trace"),
    "mobility and places": (cell({"mobility": {"model": "random-waypoint", "speed": "1 m/s"}, "places": PLACES}),
                            "conflict", "population.phone.mobility"),
    "a normal speed": (cell({"mobility": {"model": "random-waypoint", "speed": {
        "dist": "normal", "mean": "9 m/s", "sd": "1 m/s"}}}), "unsupported", "population.phone.mobility.speed"),
    "steps of a walk": (cell({"mobility": {"model": "random-waypoint", "speed": "1 m/s", "every": "1 us"}}),
                        "out-of-range", "population.phone.mobility.every"),
    "tracks of other devices": (cell({"mobility": {"model": "recorded", "tracks": [{"t": [0], "x": [0], "y": [0]}]}}),
                                "wrong-length", "population.phone.mobility.tracks"),
    "an uneven track": (cell({"mobility": {"model": "recorded", "tracks": [{"t": [0], "x": [0, 1], "y": [0]}]}}),
                        "wrong-length", "population.phone.mobility.tracks.0"),
    "a short dwell": (cell({"availability": {"model": "on-off", "on": "1 us", "off": "1 s"}}),
                      "out-of-range", "population.phone.availability.on"),
    "intervals without ends": (cell({"availability": {"model": "recorded", "intervals": [{"on": [1], "off": []}]}}),
                               "wrong-length", "population.phone.availability.intervals.0.off"),
    "intervals of other devices": (cell({"availability": {"model": "recorded", "intervals": [
        {"on": [1], "off": [2]}]}}), "wrong-length", "population.phone.availability.intervals"),
    "intervals beyond the period": (cell({"availability": {"model": "recorded", "period": "1 s", "intervals": [
        {"on": [1], "off": [2]}] * 2}}), "out-of-range", "population.phone.availability.period"),
    "charging for no time": (cell({"battery": "1 J", "charging": {"power": "1 W", "start": "22:00", "end": "22:00"}}),
                             "out-of-range", "population.phone.charging.end"),
    "throttled below the lowest clock": (cell({"throttle": {"after": "1 s", "to": "0.1 GHz", "recovers": "1 s"}}),
                                         "out-of-range", "population.phone.throttle.to"),
    "bits of a model that is not built": (lambda folder: load_scenario("quickstart", ["learning.bits=auto"]).bits(),
                                          "needs", "learning.bits"),
    "a path loss beyond all bounds": (lambda folder: draw_population(load_scenario("tiny", [
        "cell.path_loss.intercept=499 dB", "cell.path_loss.slope=-400 dB"]), 0), "out-of-range", "cell.path_loss"),
    "check: images for another model": (arrays(), "out-of-range", "learning.model"),
    "check: arrays without labels": (arrays(train_labels=np.zeros(3)), "wrong-type", "FOLDER/x.npz: train_labels"),
    # keys without effect
    "no effect: shadowing beside gains": (cell(cell={**TRACE, "shadowing": "4 dB"}), "no-effect", "cell.shadowing"),
    "no effect: a column beside gains": (cell({"devices": {"gain": ["-95 dB"] * 2}, "count": None}, cell=TRACE),
                                         "no-effect", "population.phone.devices, column gain"),
    "no effect: path loss beside measured gains": (cell({"devices": {"gain": ["-95 dB"] * 2}, "count": None},
                                                        cell={"path_loss": {"slope": "20 dB"}}),
        "no-effect", "cell.path_loss"),
    "no effect: a key beside its column": (cell({"devices": {"budget": ["9 mJ"] * 2}, "count": None}),
                                           "no-effect", "population.phone.budget"),
    "no effect: a table beside its columns": (cell({"devices": FLEET, "count": None, "radio": None}),
                                              "no-effect", "population.phone.cpu"),
    "no effect: the mean channel without fading": (cell(allocation={"channel": "mean"}),
                                                   "no-effect", "allocation.channel"),
    "no effect: a rule for all in the first round": (
        cell(rounds={"first": "cohort", "first_infeasible": "relax"}), "no-effect", "rounds.first_infeasible"),
    "no effect: how to learn without data": (cell(learning={"learning_rate": 0.1}),
                                             "no-effect", "learning.learning_rate"),
    "no effect: buffers without data": (cell(learning={"buffers": "local"}), "no-effect", "learning.buffers"),
    "no effect: rounds of an asynchronous server": (
        cell(server={"kind": "fedbuff", "buffer": 2}, rounds={"first": "all"}), "no-effect", "rounds.first"),
    "no effect: the radius where all have places": (
        cell(changes={"cell.radius": "200 m", "population.phone.places": PLACES}), "no-effect", "cell.radius"),
    "no effect: a range of powers": (cell(changes={"population.phone.radio.max_power": "30 dBm"}),
                                     "no-effect", "population.phone.radio.max_power"),
    "no effect: the power of a method that chooses": (
        cell(RANGE, {"population.phone.radio.power": "15 dBm", "allocation.method": "sao-joint"}),
        "no-effect", "population.phone.radio.power"),
    "no effect: on mains": (cell({"idle": "1 W"}), "no-effect", "population.phone.idle"),
    "no effect: a clock that is never reached": (
        cell({"throttle": {"after": "1 s", "to": "3 GHz", "recovers": "1 s"}}),
        "no-effect", "population.phone.throttle.to"),
    "no effect: time of day without charging": (cell(rounds={"starts_at": "22:00"}), "no-effect", "rounds.starts_at"),
    "no effect: correlation where nothing moves": (
        cell(cell={"shadowing": {"sd": "4 dB", "correlation": "9 m"}}), "no-effect", "cell.shadowing.correlation"),
    "no effect: learning that is switched off": (
        lambda folder: refuse_untrained(load_scenario("quickstart").with_({"learning.learning_rate": 0.5})),
        "no-effect", "learning.learning_rate"),
    "no effect: a method beside --method": (lambda folder: compare_methods(load_scenario("tiny", [
        "allocation.method=fedl", "allocation.lambda=2"]), ["sao", "equal"], 0), "no-effect", "allocation.method"),
    # overrides
    "set: no value": (small("", "", "cell.bandwidth"), "malformed", "--set"),
    "set: no path": (small("", "", "cell bandwidth=3"), "malformed", "--set"),
    "set: two lines": (small("", "", "a=1\nb=2"), "unknown-key", "a"),
    "set: an unknown population": (small("", "", "population.nod.count=1"), "unknown-key", "population.nod.count"),
    "set: no population": (small("", "", "population.count=1"), "unknown-key", "population.count"),
    "set: the name of a population": (small("", "", "population.node.name=other"),
                                      "unsupported", "population.node.name"),
    "set: a value and a table": (small("", "", "end=3", "end.rounds=3"), "conflict", "end.rounds"),
    "set: an unknown user": (small("", "", "learning.root=~nobody-here/data"), "no-such-file", "learning.root"),
    "set: a zero byte": (small("", "", 'learning.root="a\\u0000b"'), "malformed", "learning.root"),
    # files
    "no TOML": (small('"1 MHz"', "1 MHz"), "malformed", "FOLDER/small.toml"),
    "no UTF-8": (raw(b"\xff\xfe\x00"), "malformed", "FOLDER/small.toml"),
    "nested too deeply": (raw(b"a = " + b"[" * 100_000), "malformed", "FOLDER/small.toml"),
    "no such scenario": (call(load_scenario, "quikstart"), "unknown-name", "scenario"),
    "no such file": (call(load_scenario, "none.toml"), "no-such-file", "none.toml"),
    "a folder": (lambda folder: load_scenario(f"{folder}/"), "unreadable", "FOLDER"),
    "a number for a base": (small("[cell]", "base = 3\n[cell]"), "wrong-type", "base"),
    "no such base": (small("[cell]", 'base = "papr"\n[cell]'), "unknown-name", "base"),
    "no such base file": (small("[cell]", 'base = "papr.toml"\n[cell]'), "no-such-file", "base"),
    "bases in a circle": (based('base = "1.toml"\n', 'base = "0.toml"\n'), "conflict", "base"),
    "too many bases": (based('base = "tiny"\n', *(f'base = "{place}.toml"\n' for place in range(25))),
                       "too-large", "base"),
    "at fault in the base": (based(SMALL.replace('"1 MHz"', '"1 MJ"'), 'base = "0.toml"\n[cell]\nradius = "9 m"\n'),
                             "wrong-unit", "cell.bandwidth"),
    "no effect over a base": (based(SMALL, 'base = "0.toml"\n[cell]\nshadowing = "4 dB"\ngain_trace = { db = [['
                                    "1.0, 1.0, 1.0, 1.0]] }\n"), "no-effect", "cell.shadowing"),
    # CSV files
    "fleet: no such file": (small("count = 4", 'devices = "none.csv"'), "no-such-file", "FOLDER/none.csv"),
    "fleet: empty": (fleet(""), "empty", "FOLDER/fleet.csv"),
    "fleet: no rows": (fleet("x,y\n"), "empty", "FOLDER/fleet.csv"),
    "fleet: a wrong unit": (fleet("x,y\n1 m,2 m\n3 m,4 mm\n"), "wrong-unit", 'column "y"'),
    "fleet: no number": (fleet("x,y,cycles_per_sample\n1 m,2 m,many\n"), "wrong-type", 'column "cycles_per_sample"'),
    "fleet: out of range": (fleet("x,y,samples\n1 m,2 m,0\n"), "out-of-range", 'column "samples"'),
    "fleet: a short row": (fleet("x,y\n1 m\n"), "wrong-length", "FOLDER/fleet.csv, line 2"),
    "fleet: an empty cell": (fleet("x,y\n1 m,\n"), "empty", 'column "y"'),
    "fleet: an unknown column": (fleet("x,yy\n1 m,2 m\n"), "unknown-key", "column 2"),
    "fleet: a column twice": (fleet("x,x\n1 m,2 m\n"), "duplicate", 'column "x"'),
    "fleet: half a place": (fleet("x\n1 m\n"), "missing", "population.node.devices.y"),
    "fleet: an open quote": (fleet('x,y\n"1 m,2 m\n'), "malformed", "FOLDER/fleet.csv"),
    "fleet: min above max": (fleet("cpu_max\n2 GHz\n0.1 GHz\n"), "out-of-range", 'column "cpu_max"'),
    "fleet: an unknown word": (fleet("battery\nmians\n"), "malformed", 'column "battery"'),
    "fleet: columns of other lengths": (cell({"devices": {"budget": ["9 mJ"], "samples": [1, 2]}, "count": None,
                                              "budget": None}), "wrong-length", "population.phone.devices"),
    "fleet: no columns": (cell({"devices": {}, "count": None}), "empty", "population.phone.devices"),
    "fleet: neither table nor columns": (cell({"devices": {"budget": ["9 mJ"] * 2}, "count": None, "budget": None,
                                               "radio": None}), "missing", "population.phone.radio"),
    "gains: no number": (gains("a,b,c,d\n-90,-91,-92,-93\n-90,-91,x,-93\n"), "malformed", "column 3"),
    "gains: no rows": (gains("a,b,c,d\n"), "empty", "FOLDER/gains.csv"),
    "a secret for a fleet": (fleet("password: hunter2\n"), "unknown-key", "column 1"),
    "a secret for gains": (gains("key\nhunter2\n"), "malformed", "column 1"),
    "tracks: other columns": (scenario("tiny", 'population.node.mobility={model="recorded",tracks="t.csv"}',
                                       files={"t.csv": "device,t\n0,1\n"}), "malformed", "FOLDER/t.csv"),
    "tracks: no number": (scenario("tiny", 'population.node.mobility={model="recorded",tracks="t.csv"}',
                                   files={"t.csv": "device,t,x,y\n0,one,1,1\n"}), "wrong-type", 'column "t"'),
    "tracks: a gap": (scenario("tiny", 'population.node.mobility={model="recorded",tracks="t.csv"}',
                               files={"t.csv": "device,t,x,y\n1,0,1,1\n"}), "malformed", "FOLDER/t.csv"),
}
