"""Sweep files: which points they name, and what they say when they are wrong."""

from pathlib import Path

import pytest

from netsim.base.errors import InputError
from netsim.sweep.sweep_file import load_sweep


def write(folder: Path, text: str, name: str = "many.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_grid_takes_every_combination_under_every_seed(tmp_path: Path) -> None:
    sweep = load_sweep(write(tmp_path, """
        scenario = "tiny"
        seeds = 2
        [grid]
        allocation.method = ["sao", "equal"]
        "cell.bandwidth" = ["5 MHz", "10 MHz", "20 MHz"]
    """))
    assert len(sweep.points) == 12
    assert sweep.cases[0].settings == {"allocation.method": "sao", "cell.bandwidth": "5 MHz"}
    assert [point.seed for point in sweep.points[:4]] == [0, 1, 0, 1]
    assert sweep.points[4].scenario.cell.bandwidth == 20e6
    assert sweep.points[-1].scenario.allocation.method == "equal"
    assert len({point.record for point in sweep.points}) == 12


def test_a_list_names_its_cases_and_what_is_set_holds_for_all(tmp_path: Path) -> None:
    sweep = load_sweep(write(tmp_path, """
        scenario = "tiny"
        seeds = [3, 7]
        [set]
        end.rounds = 2
        [[list]]
        allocation.method = "equal"
        [[list]]
        cell.bandwidth = "10 MHz"
        allocation.method = "sao"
    """))
    found = [(point.seed, point.scenario.allocation.method, float(point.scenario.cell.bandwidth))
             for point in sweep.points]
    assert found == [(3, "equal", 5e6), (7, "equal", 5e6), (3, "sao", 10e6), (7, "sao", 10e6)]
    assert {point.scenario.end.rounds for point in sweep.points} == {2}


def test_cells_that_come_to_the_same_share_one_record(tmp_path: Path) -> None:
    sweep = load_sweep(write(tmp_path, """
        scenario = "tiny"
        [grid]
        cell.bandwidth = ["5 MHz", "5000 kHz"]
    """))
    assert len(sweep.points) == 2
    assert len({point.record for point in sweep.points}) == 1


def test_a_longer_sweep_finds_the_cells_of_the_shorter(tmp_path: Path) -> None:
    short = load_sweep(write(tmp_path, 'scenario = "tiny"\nseeds = 2\n'))
    longer = load_sweep(write(tmp_path, 'scenario = "tiny"\nseeds = 3\n[grid]\nend.rounds = [3, 4]\n'))
    assert {point.record for point in short.points} < {point.record for point in longer.points}


def test_values_may_be_tables_and_paths_hold_from_the_sweep_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('base = "quickstart"\n')
    sweep = load_sweep(write(tmp_path, """
        scenario = "mine.toml"
        [grid]
        learning.partition = [{ kind = "iid" }, { kind = "majority", sigma = 0.5 }, { kind = "file", path = "/x.json" }]
        [set]
        learning.dataset = "mnist"
        learning.root = "data"
    """))
    assert [point.scenario.learning.partition.kind for point in sweep.points] == ["iid", "majority", "file"]
    assert sweep.points[0].scenario.learning.root == str(tmp_path / "data")


@pytest.mark.parametrize(("text", "key"), [
    ('scenario = "tiny"\n[grid]\nallocation.method = ["soa"]', "allocation.method"),
    ('scenario = "tiny"\n[grid]\nend.rounds = [', ""),
    ('scenario = "~nobody-here/x.toml"', "scenario"),
    ('scenario = "tiny"\nset.learning.root = "~nobody-here/x"', "learning.root"),
    ('scenario = "tiny"\nset.learning.root = "a\\u0000b"', "learning.root"),
])
def test_a_scenario_that_is_wrong_is_named_with_the_sweep_file(tmp_path: Path, text: str, key: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError) as found:
        load_sweep(path)
    assert str(path) in str(found.value)
    assert key in found.value.key
    assert "--set" not in str(found.value)      # it was not on the command line
