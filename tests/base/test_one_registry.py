"""One registry for all that users bring: names, options, messages."""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import Field

from netsim import load_scenario, simulate
from netsim.analysis.export import FORMATS, export
from netsim.base.errors import InputError
from netsim.base.fields import Time
from netsim.base.registry import Entry, Registry, first_called
from netsim.learning.aggregation import AGGREGATIONS, needs_chances
from netsim.learning.dataset_files import decoded
from netsim.learning.datasets import DATASETS, load_dataset
from netsim.learning.partition import PARTITIONS
from netsim.models import MODELS
from netsim.scenario.learning import LearningTable
from netsim.selection import Choice, Method
from netsim.validation import validate


@dataclass(frozen=True)
class Tea:
    cups: Annotated[int, Field(ge=1)]
    steep: Time = 180.0


def pour(cup: str, amount: Annotated[float, Field(alias="lambda")] = 0.5) -> tuple[str, float]:
    return cup, amount


DRINKS = Registry("drink", "party.drink", {
    "tea": Entry(f"{__name__}:Tea", "hot", {"mugs": "cups"}), "chai": Entry(f"{__name__}:Tea", "hot too")})
WAYS = Registry("way", "party.way", {"pour": Entry(f"{__name__}:pour", "from high up")}, given=1,
                check=first_called("cup", "way"))


def test_names_and_what_they_make():
    assert (list(DRINKS), DRINKS["tea"].summary) == (["tea", "chai"], "hot")
    assert DRINKS.find("tea") is Tea
    assert DRINKS.make("tea", {"cups": 2, "steep": "3 min"}) == Tea(2, 180.0)
    assert DRINKS.make(f"{__name__}:Tea", {"cups": 1}) == Tea(1)
    assert WAYS.make("pour", {"lambda": 1})("mine") == ("mine", 1.0)


def test_names_in_the_schema_are_those_of_the_registries():
    schema = LearningTable.model_json_schema()
    assert schema["properties"]["aggregation"]["anyOf"][0]["enum"] == list(AGGREGATIONS)
    kinds = {table["properties"]["kind"].get("const") for table in schema["$defs"].values()
             if "kind" in table.get("properties", {})}
    assert set(PARTITIONS) <= kinds


@pytest.mark.parametrize("registry", [MODELS, DATASETS, PARTITIONS, AGGREGATIONS, FORMATS], ids=lambda r: r.what)
def test_all_that_is_registered_is_there(registry):
    for name in registry:
        assert registry.find(name) is not None
        assert registry[name].summary


@pytest.fixture
def users(monkeypatch) -> ModuleType:
    """A module of a user's, imported already."""
    module = ModuleType("users")
    monkeypatch.setitem(sys.modules, "users", module)
    return module


def test_a_run_on_data_split_and_aggregated_by_the_users_own(users, tmp_path):
    def load(root: Path) -> Any:
        labels = np.arange(60) % 3
        images = np.zeros((60, 16, 16, 1), np.uint8)
        images[np.arange(60), labels] = 200      # a bright row a class
        return decoded(images, labels, 45, ["a", "b", "c"])

    def split(labels: Any, samples: Any, rng: Any, each: int = 3) -> Any:
        return [rng.permutation(len(labels))[:each] for _ in samples]

    asked: list[int] = []

    def median(models: Any, samples: Any) -> Any:
        asked.append(len(models))
        assert set(samples) == {4}
        return np.median(np.stack(models), axis=0)

    def lines(run: Any, file: Any) -> None:
        file.write(f"{run.rounds.height} rounds".encode())

    users.load, users.split, users.median, users.lines = load, split, median, lines
    scenario = load_scenario("quickstart", [
        "learning.dataset=users:load", 'learning.partition={kind="users:split", each=4}', "learning.bits=1 kbit",
        "learning.aggregation=users:median", "learning.model=fashion-cnn", "selection.method=fedavg", "end.rounds=2"])
    run = simulate(scenario, workers=1, allow_import=True)
    assert run.rounds.height == len(asked) == 2
    assert load_dataset("users:load").names == ("a", "b", "c")
    export(run, "users:lines", tmp_path / "lines.txt")
    assert (tmp_path / "lines.txt").read_text() == "2 rounds"


@pytest.mark.parametrize(("change", "key"), [
    ("learning.dataset=users:bad", "learning.dataset"),
    ('learning.partition={kind="users:bad"}', "learning.partition.kind"),
    ('learning.partition={kind="users:split", eech=4}', "learning.partition.eech"),
])
def test_what_is_of_another_kind_is_refused_before_any_work(change, key, users):
    users.bad = lambda anything: anything
    users.split = lambda labels, samples, rng, each=3: []
    with pytest.raises(InputError) as error:
        validate(load_scenario("quickstart", [change]), learning=True, allow_import=True)
    assert (error.value.code, error.value.key) == ("unknown-option" if "eech" in key else "wrong-interface", key)


@pytest.mark.parametrize("change", ["learning.aggregation=users:bad", "learning.model=users:bad"])
def test_aggregations_and_models_of_another_kind_are_refused_too(change, users):
    users.bad = lambda anything: anything
    with pytest.raises(InputError, match="users:bad"):
        validate(load_scenario("quickstart", [change]), learning=True, allow_import=True)


def test_who_gives_chances_and_who_needs_them(users):
    @dataclass(frozen=True)
    class Drawn(Method):
        gives = frozenset({"chances"})

        def __call__(self, view: Any, rng: Any) -> Choice:
            raise NotImplementedError

    users.Drawn, users.Silent = Drawn, type("Silent", (Drawn,), {"gives": frozenset()})
    assert [name for name in AGGREGATIONS if needs_chances(name)] == ["unbiased"]
    for method in ("icas", "users:Drawn"):
        validate(load_scenario("quickstart", [f"selection.method={method}", "learning.aggregation=unbiased"]),
                learning=True, allow_import=True)
    for method in ("fedavg", "users:Silent"):
        with pytest.raises(InputError) as error:
            validate(load_scenario("quickstart", [f"selection.method={method}", "learning.aggregation=unbiased"]),
                    learning=True, allow_import=True)
        assert (error.value.code, error.value.key) == ("needs", "learning.aggregation")


def test_options_over_a_model_that_a_base_names(tmp_path):
    def model(*changes: str) -> tuple[str | None, dict[str, Any]]:
        learning = load_scenario("quickstart", changes).learning
        return learning.model_name, learning.model_options

    table = 'learning.model={name="users:Net", hidden=3, depth=2}'
    name, _ = model()
    assert model("learning.model.hidden=3") == (name, {"hidden": 3})
    assert model(table) == ("users:Net", {"hidden": 3, "depth": 2})
    (tmp_path / "base.toml").write_text(f'base = "quickstart"\n{table}\n')
    (tmp_path / "mine.toml").write_text('base = "base.toml"\n[learning]\nmodel = { hidden = 5 }\n')
    (tmp_path / "other.toml").write_text('base = "base.toml"\n[learning]\nmodel = { name = "users:Other" }\n')
    assert load_scenario(tmp_path / "mine.toml").learning.model_options == {"hidden": 5, "depth": 2}
    other = load_scenario(tmp_path / "other.toml").learning
    assert (other.model, other.model_options) == ("users:Other", {})


def test_a_name_alone_in_a_table_says_no_more_than_the_name():
    plain, table = (load_scenario("quickstart", [f"learning.model={text}"])
                    for text in ("mnist-cnn", '{ name = "mnist-cnn" }'))
    assert plain.digest == table.digest
    more = load_scenario("quickstart", ['learning.model={name="mnist-cnn", hidden=3}'])
    assert more.digest != plain.digest
    assert pickle.loads(pickle.dumps(more)).digest == more.digest
