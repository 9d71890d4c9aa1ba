"""A key that is set and has no effect is an error, which names what overrides it: in a file, and in what is on top."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from netsim import InputError, Scenario, load_scenario
from netsim.sample_problem import compare_methods
from netsim.scenario import toml_text
from netsim.sweep.sweep_file import load_sweep
from netsim.validation import refuse_untrained, validate

CELL: dict[str, Any] = {
    "cell": {"radius": "300 m", "bandwidth": "5 MHz"},
    "population": [{"name": "phone", "count": 2, "cpu": {"min": "0.2 GHz", "max": "2 GHz", "cycles_per_sample": 2e4},
                    "radio": {"power": "20 dBm"}, "budget": "9 mJ"}],
    "learning": {"bits": "448 kbit"}, "selection": {"method": "fedavg", "cohort": 2}}
DIGITS = {"dataset": "digits", "model": "mnist-cnn"}
TRACE = {"gain_trace": {"db": [[-95.0, -99.0]]}}
FLEET = {"cpu_min": ["1 GHz"] * 2, "cpu_max": ["2 GHz"] * 2, "cycles_per_sample": [2e4] * 2, "power": ["20 dBm"] * 2}


def cell(
    phone: dict[str, Any] | None = None, without: tuple[str, ...] = (), **tables: dict[str, Any],
) -> dict[str, Any]:
    """The cell above with more said, and some keys of its phones left out."""
    made = deepcopy(CELL)
    for name, table in tables.items():
        made[name] = {**made.get(name, {}), **table}
    made["population"][0] |= phone or {}
    for name in without:
        del made["population"][0][name]
    return made


@contextmanager
def refused(code: str, key: str, source: str | None = None) -> Iterator[None]:
    """Something is refused with this code, at this key, which the source has set."""
    with pytest.raises(InputError) as error:
        yield
    assert (error.value.code, error.value.key) == (code, key)
    assert source is None or error.value.source == source


@pytest.mark.parametrize("table", [
    cell(cell=TRACE),                                                                 # the radius must be given
    cell(phone={"devices": {"cpu_max": ["2 GHz"] * 2}}, without=("count",)),          # and so must cpu.max
    cell(phone={"devices": FLEET, "cpu": {**CELL["population"][0]["cpu"], "capacitance": 2e-28}},
         without=("count", "radio")),                                                 # which no column says
    cell(learning={"local_steps": 5, "batch_size": 20}),                              # a step is as long as its batch
    cell(learning={**DIGITS, "learning_rate": 0.1}, server={"kind": "fedbuff", "buffer": 2, "rate": 0.5}),
    cell(server={"kind": "fedbuff", "buffer": 2, "rate": 0.5}),        # what a server is, learning or not
    cell(phone={"radio": {"power": "20 dBm", "max_power": "23 dBm"}}),                # for methods that choose powers
])
def test_what_must_be_given_or_matters_is_fine(table: dict[str, Any]) -> None:
    scenario = Scenario.of(table)
    validate(scenario, learning=scenario.trains)


def test_a_base_may_say_what_comes_to_nothing_above_it(tmp_path: Path) -> None:
    (tmp_path / "lower.toml").write_text(toml_text.dumps(cell(
        cell={"shadowing": "4 dB"}, rounds={"first": "all"}, learning={**DIGITS, "learning_rate": 0.1})))
    upper = tmp_path / "upper.toml"
    above = '[cell]\ngain_trace = { db = [[-95.0, -99.0]] }\n[server]\nkind = "fedbuff"\nbuffer = 2\n'
    upper.write_text(f'base = "lower.toml"\n{above}')
    validate(load_scenario(upper), learning=True)
    validate(load_scenario(upper), learning=False)                         # as with --no-learning
    validate(load_scenario(tmp_path / "lower.toml", ["server.kind=fedbuff", "server.buffer=2"]), learning=True)
    upper.write_text(f'base = "lower.toml"\n{above}[rounds]\nfirst = "all"\n')
    with refused("no-effect", "rounds.first", str(upper)):
        validate(load_scenario(upper), learning=True)
    upper.write_text('base = "lower.toml"\n[cell]\nradius = "9 m"\ngain_trace = { db = [[-95.0, -99.0]] }\n')
    with refused("no-effect", "cell.radius", str(upper)):                 # the base has given it
        load_scenario(upper)


def test_a_scenario_that_spells_out_every_key_is_not_held_to_them() -> None:
    """As the one that a run keeps, which may well be run again."""
    for made in (Scenario.of(cell(cell=TRACE)), load_scenario("fedbuff"), load_scenario("tiny")):
        again = Scenario.of(tomllib.loads(made.to_toml()))
        assert again == made
        validate(again, learning=made.trains)
        with refused("malformed", "cell.noise", "with_"):                 # though changes are
            again.with_({"cell.noise": "loud"})


def test_without_learning_a_change_of_it_is_in_vain_and_the_file_is_not() -> None:
    quickstart = load_scenario("quickstart", ["selection.method=fedavg"])
    validate(quickstart, learning=False)
    refuse_untrained(quickstart)
    for key, value in {"learning_rate": 0.5, "target_accuracy": 0.5}.items():
        changed = quickstart.with_(learning={key: value})
        with refused("no-effect", f"learning.{key}", "with_"):
            refuse_untrained(changed)
    refuse_untrained(quickstart.with_({"learning.model": "fashion-cnn", "learning.bits": "auto"}))


def test_a_sweep_varies_nothing_in_vain(tmp_path: Path) -> None:
    def sweep(text: str) -> Any:
        path = tmp_path / "sweep.toml"
        path.write_text(f'scenario = "lab"\n{text}')
        return load_sweep(path)

    fixed = '[set]\nrounds.first = "all"\n[[list]]\nserver.kind = "{}"\n[[list]]\nserver.kind = "fedbuff"\n'
    assert len(sweep(fixed.format("synchronous")).cases) == 2             # a setting for all may be for some
    with refused("no-effect", "rounds.first"):
        sweep('[set]\nserver.kind = "fedbuff"\n[grid]\nrounds.first = ["all", "cohort"]\n')
    with refused("no-effect", "population.phone.radio.max_power"):
        sweep('[grid]\npopulation.phone.radio.max_power = ["23 dBm", "25 dBm"]\n')


def test_methods_to_compare_override_that_of_the_scenario() -> None:
    changed = load_scenario("tiny", ["allocation.method=fedl", "allocation.lambda=2"])
    assert len(compare_methods(changed, ["fedl", "equal"], 0)) == 2
