"""Scenario files: reading, merging, overriding, and writing back."""

import pickle
import tomllib

import jsonschema
import pytest
from small_scenario import SMALL

from netsim.scenario import builtin_scenarios, json_schema, load_scenario


@pytest.fixture
def write(tmp_path):
    def write(text, name="small.toml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path
    return write


def test_values_are_si_and_defaults_are_filled_in(write):
    scenario = load_scenario(write(SMALL))
    assert scenario.name == "small"
    assert scenario.cell.bandwidth == 1e6
    assert scenario.cell.noise == pytest.approx(3.981e-21, rel=1e-3)
    assert scenario.cell.path_loss.slope == 37.6
    assert scenario.learning.local_epochs == 1
    assert scenario.allocation.method == "sao"
    assert (scenario.rounds.first, scenario.rounds.first_round_policy, scenario.rounds.infeasible_policy) == (
        "all", "waves", "largest")
    assert scenario.end.rounds == 100
    assert scenario.size == 4
    assert not scenario.trains
    assert scenario.bits() == 10_000


def test_is_frozen(write):
    scenario = load_scenario(write(SMALL))
    with pytest.raises(ValueError, match="frozen"):
        scenario.name = "other"
    with pytest.raises(ValueError, match="frozen"):
        scenario.cell.bandwidth = 3.0


def test_a_base_file_is_changed_key_by_key(write):
    write(SMALL, "lower.toml")
    scenario = load_scenario(write("""
        base = "lower.toml"
        [cell]
        bandwidth = "2 MHz"
        [[population]]
        name = "node"
        budget = { high = "3 mJ" }
        [[population]]
        name = "other"
        count = 1
        cpu = { min = "1 GHz", max = "1 GHz", cycles_per_sample = 1 }
        radio = { power = "1 W" }
        budget = "1 J"
    """))
    assert scenario.cell.bandwidth == 2e6
    assert scenario.cell.radius == 100
    node, other = scenario.population
    assert (node.count, node.budget.low, node.budget.high) == (4, 0.001, 0.003)
    assert other.name == "other"


def test_a_built_in_scenario_is_a_base_from_anywhere(write):
    for base in ("paper", "paper.toml"):
        scenario = load_scenario(write(f'base = "{base}"\n[selection]\ncohort = 5\n'))
        assert (scenario.size, scenario.selection.cohort) == (100, 5)
        assert scenario.name == "small"


def test_another_kind_leaves_nothing_of_the_old_one(write):
    write(SMALL + "clusters = 3\n", "lower.toml")
    scenario = load_scenario(write("""
        base = "lower.toml"
        [selection]
        method = "kmeans"
        layer = "fc2"
        [[population]]
        name = "node"
        places = [["1 m", "2 m"], ["3 m", "4 m"]]
        budget = { dist = "normal", mean = "20 mJ", sd = "1 mJ" }
    """))
    assert scenario.selection.options == {"layer": "fc2"}
    assert scenario.selection.cohort == 2
    assert scenario.population[0].budget.mean == 0.02
    assert scenario.population[0].count is None
    assert scenario.size == 2


def test_overrides(write):
    path = write(SMALL)
    scenario = load_scenario(path, [
        "cell.bandwidth=10MHz", "population.node.budget=30mJ", 'description="a = b"', "population.node.count=1e3",
        "selection.cohort=3", "selection.clusters=5", "selection.method=kmeans", "end.time=2 min",
        "learning.dataset=digits", "learning.model=mnist-cnn", "learning.evaluation.every=4",
        "cell.path_loss.slope=20dB",
    ])
    assert scenario.cell.bandwidth == 10e6
    assert scenario.population[0].budget == 0.03
    assert scenario.description == "a = b"
    assert scenario.population[0].count == 1000
    assert scenario.selection.options == {"clusters": 5}
    assert scenario.end.time == 120
    assert scenario.learning.evaluation.every == 4
    assert (scenario.cell.path_loss.slope, scenario.cell.path_loss.intercept) == (20, 128.1)


def test_an_override_of_the_method_takes_the_old_options_away(write):
    path = write(SMALL + "clusters = 3\n")
    assert load_scenario(path).selection.options == {"clusters": 3}
    assert load_scenario(path, ["selection.method=divergence"]).selection.options == {}


def test_populations_with_odd_names_are_addressed_in_quotes(write):
    path = write(SMALL.replace('"node"', '"my phone, v1.5"'))
    assert load_scenario(path, ['population."my phone, v1.5".count=9']).size == 9


@pytest.mark.parametrize("name", builtin_scenarios())
def test_resolved_text_loads_to_an_equal_scenario_from_anywhere(name, write, monkeypatch, tmp_path):
    scenario = load_scenario(name)
    path = write(scenario.to_toml(), "elsewhere/scenario.toml")
    monkeypatch.chdir(tmp_path)
    again = load_scenario(path)
    assert again == scenario
    assert again.name == name
    assert again.digest == scenario.digest
    assert again.to_toml() == scenario.to_toml()
    assert pickle.loads(pickle.dumps(scenario)) == scenario


def test_resolved_text_holds_what_csv_files_said(write):
    write("-90\n-91\n", "gains.csv")
    fleet = write("x,y,battery\n1 m,2 m,mains\n", "fleet.csv")
    text = SMALL.replace("count = 4", 'devices = "fleet.csv"').replace("cohort = 2", "cohort = 1").replace(
        "[cell]", '[cell]\ngain_trace = "gains.csv"')
    scenario = load_scenario(write(text))
    resolved = scenario.to_toml()
    fleet.unlink()
    assert load_scenario(write(resolved, "resolved.toml")).digest == scenario.digest
    assert load_scenario(write(resolved, "resolved.toml")).population == scenario.population
    assert 'battery = ["mains"]' in resolved


def test_a_policy_lies_beside_the_scenario_that_names_it(write):
    path = write(SMALL.replace("cohort = 2", 'cohort = 2\npolicy = "agents/favor.npz"'))
    assert load_scenario(path).selection.options["policy"] == str(path.parent / "agents" / "favor.npz")


def test_resolved_text_escapes_what_toml_must_escape(write):
    nasty = 'quote " slash \\ line\nbreak \x7f bell\x07 ü € 𝄞'
    scenario = load_scenario(write(SMALL))
    odd = scenario.model_copy(update={"description": nasty})
    assert load_scenario(write(odd.to_toml())).description == nasty


def test_options_of_any_toml_type_survive(write):
    path = write(SMALL + 'a = [1, 2.5, "x"]\nb = { c = true, "d e" = [[1], [2]] }\nf = inf\nday = 2024-05-01\n')
    scenario = load_scenario(path)
    assert load_scenario(write(scenario.to_toml(), "again.toml")) == scenario


def test_the_servers_optimiser_by_its_name_and_by_its_old_one(write):
    learns = ["learning.dataset=digits", "learning.model=mnist-cnn"]
    new = load_scenario(write(SMALL), [*learns, "learning.optimiser={kind='momentum'}"])
    old = load_scenario(write(SMALL), [*learns, "learning.server={kind='momentum'}"])
    assert new.digest == old.digest
    assert "optimiser = { kind = \"momentum\"" in old.to_toml()


def test_digest_sees_values_and_not_their_spelling(write):
    first = load_scenario(write(SMALL))
    assert load_scenario(write(SMALL.replace('"1 MHz"', '"1000kHz"'))).digest == first.digest
    assert load_scenario(write(SMALL, "renamed.toml")).digest == first.digest
    assert load_scenario(write(SMALL), ["cell.bandwidth=2MHz"]).digest != first.digest
    assert load_scenario(write(SMALL), ["selection.clusters=2"]).digest != first.digest


def test_digest_sees_what_a_folder_of_images_and_a_policy_hold_and_not_where_they_lie(write, tmp_path):
    def digest(*more):
        return load_scenario(write(SMALL), ["learning.dataset=digits", *more, "learning.model=mnist-cnn"]).digest

    for folder, size in (("one", 5), ("same", 5), ("other", 6)):
        write("x" * size, f"{folder}/train/cat/1.png")
    one, same, other = (digest("learning.dataset=image-folder", f"learning.root={tmp_path / folder}")
                        for folder in ("one", "same", "other"))
    assert one == same
    assert one != other
    policies = {name: digest("selection.method=favor", f"selection.policy={write(name[0], f'{name}.pt')}")
                for name in ("agent", "another", "better")}
    assert policies["agent"] == policies["another"]
    assert policies["agent"] != policies["better"]


def test_paths_hold_from_the_file_that_names_them(write, monkeypatch, tmp_path):
    write("x,y\n1 m,2 m\n3 m,4 m\n", "data/fleet.csv")
    lower = SMALL.replace("count = 4", 'devices = "fleet.csv"').replace(
        "[learning]", '[learning]\ndataset = "mnist"\nmodel = "mnist-cnn"\nroot = "images"\n'
        'partition = { kind = "file", path = "split.json" }')
    write(lower, "data/lower.toml")
    scenario = load_scenario(write('base = "data/lower.toml"\n'))
    assert scenario.size == 2
    assert scenario.learning.root == str(tmp_path / "data" / "images")
    assert scenario.learning.partition.path == str(tmp_path / "data" / "split.json")
    monkeypatch.chdir(tmp_path)
    over = load_scenario("small.toml", ["learning.root=here"])
    assert over.learning.root == str(tmp_path / "here")


def test_bits_auto_is_the_size_of_the_model():
    scenario = load_scenario("quickstart", ["learning.bits=auto"])
    assert scenario.bits(113_744) == 32 * 113_744


def test_json_schema_takes_the_files_and_refuses_mistakes(write):
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for path in [*builtin_scenarios().values(), write(SMALL)]:
        assert not list(validator.iter_errors(tomllib.loads(path.read_text(encoding="utf-8"))))
    resolved = [load_scenario(name).to_toml() for name in builtin_scenarios()]
    assert not [error for text in resolved for error in validator.iter_errors(tomllib.loads(text))]
    for wrong in ('"1 MHz"->"1 mhz"', '"1 MHz"->1', "count = 4->count = -4", '"uniform"->"unifrm"', "radius->radus"):
        old, new = wrong.split("->")
        assert list(validator.iter_errors(tomllib.loads(SMALL.replace(old, new)))), wrong
    assert list(validator.iter_errors({"end": {"rounds": 1}}))
    assert not list(validator.iter_errors({"base": "paper", "end": {"rounds": 1}, "cell": {"noise": "-170 dBm/Hz"}}))
    assert list(validator.iter_errors(tomllib.loads(SMALL.replace("radius", "#"))))
    assert list(validator.iter_errors({"base": "paper", "cell": {"noise": 3}}))


def test_every_key_is_described_in_the_schema():
    tables = json_schema()["$defs"]
    for name in ("Cell", "Learning", "Population", "Rounds", "End"):
        for key, field in tables[name]["properties"].items():
            assert "description" in field, f"{name}.{key}"
