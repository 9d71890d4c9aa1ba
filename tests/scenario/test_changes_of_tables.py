"""Changes of a scenario: a table replaces, a key of it changes, null unsets."""

from __future__ import annotations

import pytest
from refused import refused

from netsim import InputError, load_scenario, simulate

LINK = {"efficiency": 0.5, "max_spectral_efficiency": "5 bit/s/Hz"}


@pytest.fixture
def linked(tmp_path):
    path = tmp_path / "linked.toml"
    path.write_text('base = "tiny"\n[cell]\nlink = { efficiency = 0.5, max_spectral_efficiency = "5 bit/s/Hz" }\n')
    return path


def test_a_table_replaces_and_a_key_changes(linked) -> None:
    replaced = load_scenario(linked, ["cell.link={efficiency=0.7}"]).cell.link
    assert (replaced.efficiency, replaced.max_spectral_efficiency) == (0.7, None)
    changed = load_scenario(linked, ["cell.link.efficiency=0.7"]).cell.link
    assert (changed.efficiency, changed.max_spectral_efficiency) == (0.7, 5.0)
    both = load_scenario(linked, ["cell.link={efficiency=0.7}", "cell.link.cap=4bit/s/Hz"]).cell.link
    assert (both.efficiency, both.max_spectral_efficiency) == (0.7, 4.0)
    last = load_scenario(linked, ["cell.link.cap=4bit/s/Hz", "cell.link={efficiency=0.7}"]).cell.link
    assert (last.efficiency, last.max_spectral_efficiency) == (0.7, None)
    old = load_scenario(linked, ["cell.rate={efficiency=0.7}"])
    assert old.digest == load_scenario(linked, ["cell.link={efficiency=0.7}"]).digest


def test_a_dict_of_python_changes_the_keys_that_it_has(linked) -> None:
    changed = load_scenario(linked).with_({"cell.link": {"efficiency": 0.7}}).cell.link
    assert (changed.efficiency, changed.max_spectral_efficiency) == (0.7, 5.0)


def test_null_unsets(linked) -> None:
    tiny = load_scenario("tiny")
    for unset in (load_scenario(linked, ["cell.link=null"]), load_scenario(linked, ["cell.rate=null"]),
                  load_scenario(linked).with_({"cell.link": None})):
        assert unset.digest == tiny.digest
    assert load_scenario(linked, ["cell.link.cap=null"]).cell.link.max_spectral_efficiency is None
    assert simulate(load_scenario(linked, ["cell.link=null"])).title == "linked with cell.link = null, seed 0"
    placed = load_scenario("tiny", ["population.node.battery=2J"]).with_({"population.node.battery": None})
    assert placed.digest == tiny.digest


@pytest.mark.parametrize(("override", "code", "key"), [
    ("cell.link=null", "no-effect", "cell.link"), ("cell.lnk=null", "no-effect", "cell.lnk"),
    ("cell.bandwidth=null", "missing", "cell.bandwidth"),
    ("population.node.budget=null", "missing", "population.node.budget"),
    ("population.nod.budget=null", "no-effect", "population.nod.budget"),
    ("selection={method='fedavg'}", "missing", "selection.cohort"),
])
def test_what_cannot_be_unset_is_refused(override, code, key) -> None:
    with refused(code, key):
        load_scenario("tiny", [override])


def test_a_failed_run_leaves_no_folder_behind(tmp_path) -> None:
    def broken(problem):
        raise RuntimeError("no")

    with pytest.raises(InputError):
        simulate("tiny", tmp_path / "some" / "run", allocation=broken)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError):
        simulate("tiny", tmp_path / "empty", allocation=broken)
    assert list((tmp_path / "empty").iterdir()) == []       # the folder itself was there before
    simulate("tiny", tmp_path / "empty")


def test_a_run_that_is_interrupted_can_be_resumed(tmp_path) -> None:
    def stop(at):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate("tiny", tmp_path / "run", progress=stop)
    assert simulate("tiny", tmp_path / "run", resume=True).last_round == 3
