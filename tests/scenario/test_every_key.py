"""No silent key: every key of the schema changes what is played, in a world in which it matters.

    python tests/scenario/test_every_key.py

tries each of them in all the worlds below, and prints where one does nothing and is not refused: a new key that is
overridden by another shows there. Some only come to bear in rare moments (a fade in mid-upload, a round that nobody
fits), and are silent in a short run now and then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from netsim import InputError, Scenario, simulate
from netsim.scenario import json_schema

CELL: dict[str, Any] = {
    "cell": {"radius": "300 m", "bandwidth": "5 MHz"},
    "population": [{
        "name": "phone", "count": 4, "cpu": {"min": "0.2 GHz", "max": "2 GHz", "cycles_per_sample": 2e4},
        "radio": {"power": "20 dBm"}, "budget": {"dist": "uniform", "low": "8 mJ", "high": "30 mJ"}, "battery": "0.2 J",
        "samples": 100}],
    "learning": {"bits": "448 kbit", "local_epochs": 5}, "selection": {"method": "fedavg", "cohort": 3},
    "end": {"rounds": 3},
}
PHONE = "population.phone"
GAINS = {"db": [[-100.0, -95.0, -105.0, -98.0], [-96.0, -99.0, -101.0, -103.0]]}
# The worlds in which every key is tried: what they change of the cell above.
WORLDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "recorded gains": {"cell.gain_trace": GAINS},
    "measured gains": {f"{PHONE}.devices": {"gain": ["-100 dB", "-95 dB", "-105 dB", "-98 dB"]}},
    "fading": {"cell.fading": "rayleigh"},
    "walking": {f"{PHONE}.mobility": {"model": "random-waypoint", "speed": "9 m/s", "update_interval": "10 ms"},
                "cell.shadowing": "6 dB"},
    "places": {f"{PHONE}.places": [["100 m", "0 m"], ["0 m", "200 m"], ["-250 m", "0 m"], ["40 m", "30 m"]]},
    "fleet": {f"{PHONE}.devices": {
        "x": ["10 m", "-50 m", "90 m", "200 m"], "y": ["0 m", "50 m", "90 m", "100 m"], "power": ["20 dBm"] * 4,
        "cpu_min": ["0.2 GHz"] * 4, "cpu_max": ["2 GHz"] * 4, "cycles_per_sample": [2e4] * 4, "samples": [100] * 4,
        "capacitance": [1e-28] * 4, "budget": ["20 mJ"] * 4, "battery": ["0.2 J", "mains", "0.1 J", "0.1 J"]}},
    "as they come": {"server": {"kind": "fedbuff", "buffer": 2}},
    "windows": {"server": {"kind": "window", "period": "60 ms", "concurrency": 3}},
    "cohorts alone": {"rounds.first": "cohort"},
    "own powers": {"allocation.method": "sao-joint", f"{PHONE}.radio.min_power": "10 dBm",
                   f"{PHONE}.radio.max_power": "22 dBm"},
}
AWAY = {f"{PHONE}.availability": {"model": "on-off", "on": "40 ms", "off": "30 ms"}}
THERE = {f"{PHONE}.availability": {"model": "recorded", "intervals": [{"on": [0.0], "off": [0.03]}] * 4,
                                   "period": "50 ms"}}
CRASHES = {f"{PHONE}.crash": {"mean_time_between_failures": "30 ms", "mean_repair_time": "20 ms"}}
LOSSES = {f"{PHONE}.loss": {"probability": 0.4}}
WALK = {f"{PHONE}.mobility": {"model": "random-waypoint", "speed": "30 m/s", "update_interval": "10 ms"}}
TRACKS = {f"{PHONE}.mobility": {"model": "recorded", "update_interval": "10 ms", "tracks": [
    {"t": [0.0, 1.0], "x": [50.0, 250.0], "y": [0.0, 20.0]}] * 4}}
HOT = {f"{PHONE}.throttle": {"after": "1 ms", "to": "0.5 GHz", "recovery_time": "20 ms"}}
DOWN = {"cell.downlink": {"power": "1 W"}}
SPREAD = {f"{PHONE}.devices": {"x": ["10 m", "-50 m", "90 m", "200 m"], "y": ["0 m", "50 m", "90 m", "100 m"]}}
NIGHT = {f"{PHONE}.charging": {"power": "10 mW", "start": "23:00", "end": "02:00"}, f"{PHONE}.battery": "40 mJ"}
FRUGAL = {"allocation.method": "sao-joint", f"{PHONE}.budget": "4 mJ", f"{PHONE}.radio.min_power": "0 dBm"}
FADES = {"cell.fading": {"model": "rayleigh", "coherence": "2 ms"}, f"{PHONE}.budget": "6 mJ"}
RATES = {f"{PHONE}.radio.rate": {"t": [0.0, 0.02], "bit_per_s": [[4e7, 5e7, 6e7, 7e7], [2e7, 3e7, 4e7, 5e7]]}}
TABLED = {f"{PHONE}.cpu.power": {"model": "table", "watts": [["0.2 GHz", "0.01 W"], ["2 GHz", "0.9 W"]]}}
VOLTS = {f"{PHONE}.cpu.power": {"model": "table", "volts": [["0.2 GHz", "0.5 V"], ["2 GHz", "0.9 V"]], "farads": 3e-10}}
COUNTED = {f"{PHONE}.cpu.cycles_per_sample": "auto", f"{PHONE}.cpu.flops_per_cycle": 1.0,
           "learning.flops_per_sample": 2e4}
POOR = {f"{PHONE}.budget": "3 mJ"}
# Every key that needs no training: what must be there for it, and another value.
KEYS: dict[str, tuple[dict[str, Any], Any]] = {
    "allocation.channel_estimate": ({"cell.fading": "rayleigh"}, "mean"),
    "allocation.method": ({}, "equal"),
    "cell.scheduler": ({}, "tdma"),
    "cell.bandwidth": ({}, "4 MHz"),
    "cell.downlink.bandwidth": (DOWN, "1 MHz"),
    "cell.downlink.bits": (DOWN, "1 Mbit"),
    "cell.downlink.power": (DOWN, "2 W"),
    "cell.downlink.receive_power": (DOWN, "50 mW"),
    "cell.downlink.mode": (DOWN, "unicast"),
    "cell.fading.coherence": ({"cell.fading": {"model": "rayleigh"}}, "5 ms"),
    "cell.fading.k": ({"cell.fading": {"model": "rician", "k": "3 dB"}}, "6 dB"),
    "cell.fading.model": ({}, "rayleigh"),
    "cell.gain_trace.db": ({"cell.gain_trace": GAINS}, [[-99.0, -95.0, -105.0, -98.0]]),
    "cell.gain_trace.t": ({"cell.gain_trace": GAINS}, [0.0, 0.02]),
    "cell.noise": ({}, "-170 dBm/Hz"),
    "cell.noise_figure": ({}, "5 dB"),
    "cell.path_loss.frequency": ({"cell.path_loss": {"model": "free-space", "frequency": "2 GHz"}}, "3 GHz"),
    "cell.path_loss.intercept": ({}, "125 dB"),
    "cell.path_loss.model": ({}, {"model": "free-space", "frequency": "2 GHz"}),
    "cell.path_loss.slope": ({}, "30 dB"),
    "cell.radius": ({}, "200 m"),
    "cell.link.max_spectral_efficiency": ({}, "2 bit/s/Hz"),
    "cell.link.efficiency": ({}, 0.5),
    "cell.shadowing.correlation": ({**WALK, "cell.shadowing": {"sd": "8 dB", "correlation": "50 m"}}, "5 m"),
    "cell.shadowing.sd": ({}, "8 dB"),
    "end.rounds": ({}, 2),
    "end.time": ({}, "1 ms"),
    "learning.bits": ({}, "300 kbit"),
    "learning.flops_per_sample": (COUNTED, 3e4),
    "learning.local_epochs": ({}, 2),
    "learning.local_steps": ({}, 7),
    "learning.batch_size": ({"learning.local_steps": 7}, 20),
    "population.availability.intervals.off": (THERE, [{"on": [0.0], "off": [0.02]}] * 4),
    "population.availability.intervals.period": (THERE, [{"on": [0.0], "off": [0.03], "period": 0.07}] * 4),
    "population.availability.intervals.on": (THERE, [{"on": [0.01], "off": [0.03]}] * 4),
    "population.availability.model": ({}, AWAY[f"{PHONE}.availability"]),
    "population.availability.off": (AWAY, "80 ms"),
    "population.availability.on": (AWAY, "20 ms"),
    "population.availability.period": (THERE, "70 ms"),
    "population.availability.on_interrupt": (AWAY, "abort"),
    "population.battery": ({}, "30 mJ"),
    "population.budget": ({}, "12 mJ"),
    "population.charging.end": (NIGHT, "23:30"),
    "population.charging.power": (NIGHT, "900 mW"),
    "population.charging.start": (NIGHT, "01:00"),
    "population.count": ({}, 5),
    "population.cpu.capacitance": ({}, 2e-28),
    "population.cpu.cycles_per_sample": ({}, 3e4),
    "population.cpu.cycles_per_batch": ({}, 1e5),
    "population.cpu.flops_per_cycle": (COUNTED, 2.0),
    "population.cpu.spread": ({}, 0.5),
    "population.cpu.power.model": ({}, TABLED[f"{PHONE}.cpu.power"]),
    "population.cpu.power.watts": (TABLED, [["0.2 GHz", "0.01 W"], ["2 GHz", "0.8 W"]]),
    "population.cpu.power.volts": (VOLTS, [["0.2 GHz", "0.5 V"], ["2 GHz", "0.8 V"]]),
    "population.cpu.power.farads": (VOLTS, 4e-10),
    "population.cpu.power.static": (VOLTS, "10 mW"),
    "population.cpu.max": ({}, "0.9 GHz"),
    "population.cpu.min": ({f"{PHONE}.budget": "4 mJ"}, "1.2 GHz"),
    "population.crash.mean_time_between_failures": (CRASHES, "10 ms"),
    "population.crash.mean_repair_time": (CRASHES, "60 ms"),
    "population.crash.on_interrupt": (CRASHES, "abort"),
    "population.devices.battery": ({}, ["20 mJ"] * 4),
    "population.devices.budget": ({}, ["12 mJ"] * 4),
    "population.devices.capacitance": ({}, [2e-28] * 4),
    "population.devices.compute_variation": ({}, [0.2] * 4),
    "population.devices.upload_variation": ({}, [0.2] * 4),
    "population.variation.compute": ({}, 0.2),
    "population.variation.upload": ({}, 0.2),
    "population.devices.cpu_max": ({}, ["0.9 GHz"] * 4),
    "population.devices.cpu_min": ({f"{PHONE}.budget": "4 mJ"}, ["1.2 GHz"] * 4),
    "population.devices.cycles_per_sample": ({}, [3e4] * 4),
    "population.devices.cycles_per_batch": ({}, [1e5] * 4),
    "population.devices.flops_per_cycle": ({"learning.flops_per_sample": 2e4,
        f"{PHONE}.cpu.cycles_per_sample": "auto", f"{PHONE}.devices": {"flops_per_cycle": [1.0] * 4}}, [2.0] * 4),
    "population.devices.gain": ({}, ["-99 dB"] * 4),
    "population.devices.kind": ({}, ["a", "b", "a", "c"]),
    "population.devices.max_power": ({"allocation.method": "sao-joint"}, ["25 dBm"] * 4),
    "population.devices.min_power": ({"allocation.method": "sao-joint", f"{PHONE}.budget": "4 mJ"}, ["5 dBm"] * 4),
    "population.devices.name": ({}, ["a", "b", "c", "d"]),
    "population.devices.power": ({}, ["17 dBm"] * 4),
    "population.devices.samples": ({}, [90] * 4),
    "population.devices.x": (SPREAD, ["33 m"] * 4),
    "population.devices.y": (SPREAD, ["44 m"] * 4),
    "population.harvest_power": ({f"{PHONE}.battery": "30 mJ"}, "100 mW"),
    "population.idle_power": ({f"{PHONE}.battery": "30 mJ"}, "50 mW"),
    "population.loss.packets": (LOSSES, 20),
    "population.loss.probability": (LOSSES, 0.9),
    "population.loss.max_attempts": (LOSSES, 1),
    "population.mobility.update_interval": (WALK, "5 ms"),
    "population.mobility.model": ({}, WALK[f"{PHONE}.mobility"]),
    "population.mobility.pause": (WALK, "500 s"),
    "population.mobility.speed": (WALK, "60 m/s"),
    "population.mobility.tracks.t": (TRACKS, [{"t": [0.0, 0.5], "x": [50.0, 250.0], "y": [0.0, 20.0]}] * 4),
    "population.mobility.tracks.x": (TRACKS, [{"t": [0.0, 1.0], "x": [60.0, 250.0], "y": [0.0, 20.0]}] * 4),
    "population.mobility.tracks.y": (TRACKS, [{"t": [0.0, 1.0], "x": [50.0, 250.0], "y": [9.0, 20.0]}] * 4),
    "population.places": ({}, [["11 m", "0 m"], ["22 m", "0 m"], ["33 m", "0 m"], ["44 m", "0 m"]]),
    "population.radio.rate.bit_per_s": (RATES, [[4e7, 5e7, 6e7, 8e7], [2e7, 3e7, 4e7, 5e7]]),
    "population.radio.rate.t": (RATES, [0.0, 0.03]),
    "population.radio.downlink_rate": ({f"{PHONE}.radio.rate": "30 Mbit/s"}, "50 Mbit/s"),
    "population.devices.rate": ({}, ["30 Mbit/s"] * 4),
    "population.devices.downlink_rate": ({f"{PHONE}.radio.rate": "30 Mbit/s"}, ["50 Mbit/s"] * 4),
    "population.radio.efficiency": ({}, 0.5),
    "population.radio.circuit_power": ({}, "50 mW"),
    "population.radio.max_power": ({"allocation.method": "sao-joint"}, "30 dBm"),
    "population.radio.min_power": (FRUGAL, "19.9 dBm"),
    "population.radio.power": ({}, "17 dBm"),
    "population.samples": ({}, 90),
    "population.throttle.after": (HOT, "3 ms"),
    "population.throttle.recovery_time": (HOT, "500 ms"),
    "population.throttle.to": (HOT, "0.3 GHz"),
    "rounds.deadline": ({}, "20 ms"),
    "rounds.first": ({}, "cohort"),
    "rounds.first_round_policy": (POOR, "relax"),
    "rounds.infeasible_policy": (POOR, "relax"),
    "rounds.on_budget_exceeded": (FADES, "abort"),
    "rounds.starts_at": (NIGHT, "12:00"),
    "rounds.retry_after": ({"cell.gain_trace": {"db": [[-95.0] * 4, [-150.0] * 4]}}, "7 ms"),
    "selection.cohort": ({}, 2),
    "selection.method": ({}, "round-robin"),
    "server.kind": ({}, {"kind": "fedasync"}),
}
# Keys that only training asks for, likewise, in a cell that learns.
LEARNED: dict[str, tuple[dict[str, Any], Any]] = {
    "learning.aggregation": ({"learning.aggregation": "weighted"}, "mean"),
    "learning.evaluation.every": ({}, 2),
    "learning.evaluation.samples": ({}, 50),
    "learning.fedl": ({}, 0.5),
    "learning.learning_rate": ({}, 0.2),
    "learning.model.name": ({}, "mnist-cnn"),
    "learning.momentum": ({}, 0.9),
    "learning.optimiser.beta1": ({"learning.optimiser": {"kind": "adam"}}, 0.5),
    "learning.optimiser.beta2": ({"learning.optimiser": {"kind": "adam"}}, 0.5),
    "learning.optimiser.epsilon": ({"learning.optimiser": {"kind": "adam"}}, 0.1),
    "learning.optimiser.kind": ({}, {"kind": "momentum", "momentum": 0.5}),
    "learning.optimiser.learning_rate": ({"learning.optimiser": {"kind": "adam"}}, 0.5),
    "learning.optimiser.momentum": ({"learning.optimiser": {"kind": "momentum"}}, 0.5),
    "learning.partition.alpha": ({"learning.partition": {"kind": "dirichlet"}}, 9.0),
    "learning.partition.kind": ({}, {"kind": "two-class"}),
    "learning.partition.per_device": ({"learning.partition": {"kind": "shards"}}, 5),
    "learning.partition.sigma": ({"learning.partition": {"kind": "majority"}}, 0.2),
    "learning.proximal": ({}, 5.0),
    "learning.target_accuracy": ({}, 0.01),
    "learning.weight_decay": ({}, 0.5),
}
LEARNS = {"learning.dataset": "digits", "learning.model": "fashion-cnn", "learning.partition": {"kind": "iid"},
          "end.rounds": 2, f"{PHONE}.samples": {"dist": "uniform", "low": 10, "high": 20}}
# Keys that are tried elsewhere, or that say nothing of what is played.
ELSEWHERE = {
    "base": "a file", "name": "prose", "description": "prose", "population.name": "seeds the draws of its devices",
    "population.profile": "fills in other keys", "population.profiles": "a file",
    "cell.channel": "code of one's own", "cell.link.model": "code of one's own",
    "flower.compute": "for Flower apps alone", "learning.device": "hardware",
    "flower.evaluation": "for Flower apps alone", "flower.queries": "for Flower apps alone",
    "learning.dataset": "a file",
    "learning.root": "a file", "learning.partition.path": "a file", "learning.buffers": "for models with buffers",
    **{f"population.devices.{name}": "of a file: test_device_files.py" for name in ("file", "rename", "ignore")},
}
# Where a key is set with others, or goes by a shorter name, the path under which it is.
PATHS = {
    **{key: key.removesuffix(".model").removesuffix(".kind").removesuffix(".name").replace("population", PHONE)
       for key in ("server.kind", "cell.path_loss.model", "cell.fading.model", "population.availability.model",
                   "population.mobility.model", "population.cpu.power.model",
                   "learning.optimiser.kind", "learning.partition.kind",
                   "learning.model.name")},
    "cell.shadowing.sd": "cell.shadowing",
    **{f"population.availability.intervals.{name}": f"{PHONE}.availability.intervals"
       for name in ("on", "off", "period")},
    **{f"population.mobility.tracks.{name}": f"{PHONE}.mobility.tracks" for name in "txy"},
}
DRAWN = ("Uniform", "Normal", "LogNormal", "Exponential", "OneOf")      # tables that stand for a value


def keys_of(schema: dict[str, Any], node: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[str]:
    """The paths of all keys that hold a value."""
    name = node.get("$ref", "").removeprefix("#/$defs/")
    if name.startswith(DRAWN):
        return
    node = schema["$defs"][name] if name else node
    for choice in (*node.get("anyOf", ()), *node.get("oneOf", ()), *([node["items"]] if "items" in node else [])):
        yield from keys_of(schema, choice, above)
    for name, inside in node.get("properties", {}).items():
        below = list(keys_of(schema, inside, (*above, name)))
        yield from below or [".".join((*above, name))]


@cache
def played(changes: str) -> tuple[str, Any, str] | str:
    """What came of the cell with these changes: its digest, trace and devices; or why it was refused."""
    try:
        scenario = Scenario.of(CELL).with_(json.loads(changes))
        run = simulate(scenario, workers=1)
    except InputError as error:
        return str(error)
    return scenario.digest, run.summary["trace_sha256"], run.devices.write_json()


def told(key: str, tried: tuple[dict[str, Any], Any], world: dict[str, Any]) -> str:
    """What a change of a key comes to in a world."""
    before, value = tried
    there = {**world, **before}
    path = PATHS.get(key, key.replace("population.", f"{PHONE}."))
    first, second = played(json.dumps(there)), played(json.dumps({**there, path: value}))
    if isinstance(first, str) or isinstance(second, str):
        return f"refused: {second if isinstance(second, str) else first}"
    assert first[0] != second[0], f"{key}: the digest is the same"
    return "differs" if first[1:] != second[1:] else "silent"


@pytest.mark.parametrize("key", KEYS)
def test_every_key_changes_what_is_played(key: str) -> None:
    assert told(key, KEYS[key], {}) == "differs"


@pytest.mark.slow
@pytest.mark.parametrize("key", LEARNED)
def test_every_key_of_learning_changes_what_is_learned(key: str) -> None:
    assert told(key, LEARNED[key], LEARNS) == "differs"


def test_no_key_of_the_schema_was_forgotten() -> None:
    schema = json_schema()
    assert {*keys_of(schema, schema)} == {*KEYS, *LEARNED, *ELSEWHERE}


if __name__ == "__main__":
    for each in KEYS:
        for name, changes in WORLDS.items():
            if told(each, KEYS[each], changes) == "silent":
                print(f"{each}: silent in the world {name}")
