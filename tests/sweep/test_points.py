"""Points run once, whatever happens: failures, dead workers, interruptions."""

import json
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from refused import refused
from small_runs import say

from netsim.base import files
from netsim.base.errors import InputError
from netsim.executors.factory import ExecutorFactory, place_for
from netsim.executors.workers import InProcess
from netsim.simulation import simulate
from netsim.sweep import points as cells
from netsim.sweep.points import (
    SweepPoint,
    SweepProgress,
    kept_record,
    matching_record,
    read_record,
    run_points,
    sole_user,
    write_record,
)
from netsim.sweep.progress import _count, describe, print_results, print_status, spread
from netsim.sweep.sweep import run_all, status, table
from netsim.sweep.sweep_file import Sweep, load_sweep

HERE = ExecutorFactory(InProcess, at_once=1)


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    path = tmp_path / "pair.toml"
    path.write_text('scenario = "tiny"\nseeds = 2\nlearning = false\n[grid]\nallocation.method = ["equal", "sao"]\n')
    return load_sweep(path, tmp_path / "results")


def count_plays(monkeypatch: pytest.MonkeyPatch, fail: tuple[int, ...] = ()) -> list[int]:
    """Lets points be counted, and some of them, by seed, fail."""
    seeds: list[int] = []
    play = cells.run_point

    def counted(scenario: Any, seed: int, *rest: Any) -> Any:
        seeds.append(seed)
        if seed in fail:
            raise ValueError("out of luck")
        return play(scenario, seed, *rest)

    monkeypatch.setattr(cells, "run_point", counted)
    return seeds


def test_the_table_has_a_row_a_cell_with_what_was_varied(sweep: Sweep) -> None:
    found = pl.read_parquet(run_all(sweep, HERE))
    assert found["allocation.method"].to_list() == ["equal", "equal", "sao", "sao"]
    assert found["seed"].to_list() == [0, 1, 0, 1]
    # worked out by hand in the scenario file: equal shares take 50.7526 ms a round, the optimum 37.0256 ms
    assert found["simulated_s"].to_list() == pytest.approx([3 * 0.0507526] * 2 + [3 * 0.0370256] * 2, rel=1e-5)
    assert found["round_s"].list.len().to_list() == [3, 3, 3, 3]
    runs = [sweep.folder / run for run in found["run"]]
    assert all((run / "summary.json").exists() and not (run / "checkpoint.npz").exists() for run in runs)


@pytest.mark.slow
def test_cells_that_begin_alike_come_to_what_each_comes_to_alone(tmp_path: Path) -> None:
    path = tmp_path / "methods.toml"
    path.write_text(
        'scenario = "quickstart"\n[set]\npopulation.phone.count = 6\nselection.cohort = 2\nend.rounds = 2\n'
        'population.phone.samples = 20\n[grid]\nselection.method = ["fedavg", "divergence"]\n'
        'allocation.method = ["sao", "fedl"]\n')
    found = load_sweep(path, tmp_path / "results")
    run_all(found, HERE)
    assert sorted(folder.name for folder in found.folder.iterdir() if folder.is_dir()) == ["cells", "runs"]
    alone = [simulate(point.scenario, seed=0, workers=1).summary["trace_sha256"] for point in found.points]
    assert table(found)["trace_sha256"].to_list() == alone


def test_results_in_a_few_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mixed.toml"
    lists = '[[list]]\nend.rounds = 2\n[[list]]\nallocation.method = "sao"\n'
    path.write_text(f'scenario = "tiny"\nlearning = false\n{lists}')
    found = load_sweep(path, tmp_path / "results")
    run_all(found, HERE)
    print_results(table(found), ["end.rounds", "allocation.method"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:3] == [["end.", "allocation."], ["rounds", "method", "seeds", "rounds", "a", "round", "energy"]]
    assert [line[:-2] for line in lines[4:]] == [["2", "1", "2", "50.75", "ms"], ["sao", "1", "3", "37.03", "ms"]]


def test_of_many_cases_forty_are_shown_and_all_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    """42 cases of one seed each: 40 rows, what is missing, and how to see it."""
    found = pl.DataFrame({"end.rounds": range(42), "rounds": range(42), "simulated_s": 1.0, "energy_j": 1.0,
                          "accuracy": None, "target_reached": False, "dropped": 0})
    print_results(found, ["end.rounds"])
    short = capsys.readouterr().out
    print_results(found, ["end.rounds"], every=True)
    whole = capsys.readouterr().out
    assert short.splitlines()[-1] == "... and 2 more cases; all with --all"
    assert len(whole.splitlines()) == len(short.splitlines()) + 1


def test_the_range_over_seeds_shows_where_there_is_one() -> None:
    assert spread(pl.Series([2, 4]), "{:.0f}".format) == "3\n2 … 4"
    assert spread(pl.Series([4, None, 4]), "{:.0f}".format) == "4"
    assert spread(pl.Series([None]), str) == ""
    assert spread(pl.Series([20_000, 20_001]), _count) == "20,000.5\n20,000 … 20,001"


def test_a_finished_cell_is_never_run_again(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    plays = count_plays(monkeypatch)
    first = run_all(sweep, HERE).read_bytes()
    sweep.points[2].record.unlink()
    assert run_all(sweep, HERE).read_bytes() == first
    assert len(plays) == 5


def test_a_cell_that_fails_is_reported_and_the_rest_goes_on(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as patch:
        count_plays(patch, fail=(1,))
        states: list[SweepProgress] = []
        run_all(sweep, HERE, states.append)
    assert table(sweep)["seed"].to_list() == [0, 0]
    assert (states[-1].finished, states[-1].failed, states[-1].total) == (2, 2, 4)
    assert describe(states[-1]) == "2 of 4 points, 2 failed"
    assert sweep.points[1].failure.read_text().startswith("ValueError: out of luck\n")
    print_status(sweep.name, status(sweep))
    assert "out of luck" in capsys.readouterr().err
    run_all(sweep, HERE)
    assert len(table(sweep)) == 4
    assert not sweep.points[1].failure.exists()


class Dying(Executor):
    """An executor whose first jobs take their worker down."""

    deaths = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if Dying.deaths:
            Dying.deaths -= 1
            future: Future[Any] = Future()
            future.set_exception(BrokenExecutor("gone"))
            return future
        return InProcess().submit(fn, *args, **kwargs)


def test_a_cell_is_tried_again_when_its_worker_dies(sweep: Sweep) -> None:
    Dying.deaths = 2
    run_points(sweep.points, ExecutorFactory(Dying, at_once=1))
    assert all(point.finished for point in sweep.points)


def test_workers_that_always_die_end_the_sweep_with_one_message(sweep: Sweep) -> None:
    Dying.deaths = 100
    with refused("out-of-memory", "workers"):
        run_points(sweep.points, ExecutorFactory(Dying, at_once=1))


def test_an_interrupted_cell_goes_on_and_comes_to_the_same(sweep: Sweep, tmp_path: Path) -> None:
    point = sweep.points[0]

    def stop(progress: Any) -> None:
        if progress.round == 2:
            raise KeyboardInterrupt

    run_points([point], HERE)
    whole = read_record(point.record)
    again = SweepPoint(point.scenario, point.seed, tmp_path / "again.json", tmp_path / "run", learning=False)
    with pytest.raises(KeyboardInterrupt):
        simulate(again.scenario, again.run, again.seed, learning=False, progress=stop)
    run_points([again], HERE)
    resumed = read_record(again.record)
    assert {**resumed, "seconds": 0} == {**whole, "seconds": 0}


def test_a_run_that_was_killed_while_it_finished_is_brought_to_its_end(sweep: Sweep) -> None:
    point = sweep.points[0]
    run_points([point], HERE)
    whole = read_record(point.record)
    point.record.unlink()
    say(point.run, status="running")     # the summary is there already
    run_points([point], HERE)
    assert json.loads((point.run / "run.json").read_text())["status"] == "finished"
    assert {**read_record(point.record), "seconds": 0} == {**whole, "seconds": 0}


def test_a_begun_cell_goes_on_when_its_scenario_was_renamed(tmp_path: Path) -> None:
    def load(name: str) -> SweepPoint:
        (tmp_path / f"{name}.toml").write_text('base = "tiny"\n')
        (tmp_path / "few.toml").write_text(f'scenario = "{name}.toml"\nlearning = false\n')
        return load_sweep(tmp_path / "few.toml", tmp_path / "results").points[0]

    def stop(at: Any) -> None:
        raise KeyboardInterrupt

    first, renamed = load("one"), load("two")
    assert first.record == renamed.record
    with pytest.raises(KeyboardInterrupt):
        simulate(first.scenario, first.run, first.seed, learning=False, progress=stop)
    run_points([renamed], HERE)
    assert renamed.finished


@pytest.mark.parametrize("text", ["[1]", '{"a": 1}', "{", "null"])
def test_a_file_that_is_no_record_is_named(sweep: Sweep, text: str) -> None:
    run_all(sweep, HERE)
    sweep.points[0].record.write_text(text)
    with refused("damaged", sweep.points[0].record.name):
        table(sweep)


def test_errors_are_shown_to_the_letter(sweep: Sweep, capsys: pytest.CaptureFixture[str]) -> None:
    point = sweep.points[0]
    point.failure.parent.mkdir(parents=True)
    point.failure.write_text("/data/[/x]/[red]y: no such folder\n")
    print_status("[bold]name", status(sweep))
    shown = capsys.readouterr()
    assert "failed: equal, seed 0: " in shown.err
    assert "/data/[/x]/[red]y: no such folder" in shown.err
    assert "sweep [bold]name" in shown.out


@pytest.mark.slow
def test_two_workers_give_the_bytes_of_one(sweep: Sweep, tmp_path: Path) -> None:
    alone = run_all(sweep, HERE).read_bytes()
    other = load_sweep(tmp_path / "pair.toml", tmp_path / "elsewhere")
    assert run_all(other, place_for(2)).read_bytes() == alone


def test_only_one_process_works_on_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LET_GO_S", 0.0)
    with sole_user(tmp_path), refused("busy", str(tmp_path)), sole_user(tmp_path):
        pass


def test_a_record_is_kept_as_long_as_its_note_holds(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    first = kept_record(path, {"rounds": 3}, lambda: {"value": 1})
    assert first is not None
    assert first["value"] == 1
    again = kept_record(path, {"rounds": 3}, None)
    assert again == first
    assert kept_record(path, {"rounds": 4}, None) is None
    assert kept_record(path, {"rounds": 4}, lambda: {"value": 2})["value"] == 2      # type: ignore[index]


def test_a_record_with_another_number_is_told_and_made_again(tmp_path: Path) -> None:
    path, whole = tmp_path / "record.json", {"rounds": 3, "by_round": {"round_s": [0.1, 1e-9, None]}, "seconds": 1.5}
    write_record(path, whole)
    assert read_record(path) == whole
    text = path.read_text()
    for place in range(len(text)):      # a bit of each byte in turn: told, or nothing but layout
        path.write_text(text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :])
        with suppress(InputError):
            assert {name: value for name, value in read_record(path).items() if name in whole} == whole
    path.write_text(text.replace("1e-09", "2e-09"))
    with refused("damaged", "record.json"):
        read_record(path)
    assert matching_record(path, {"rounds": 3}) is None


def test_a_record_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text('{"rounds": 3, "by_round": {}, "seconds": 1.5}')
    assert read_record(path)["rounds"] == 3


def test_cells_that_may_train_alike_come_close_to_each_other_but_not_at_once(tmp_path: Path) -> None:
    path = tmp_path / "methods.toml"
    path.write_text('scenario = "quickstart"\nseeds = 3\n[set]\nselection.method = "fedavg"\n'
                    '[grid]\nallocation.method = ["sao", "fedl"]\n')
    found = load_sweep(path, tmp_path)
    told = [(point.scenario.allocation.method, point.seed) for point in cells.in_order(found.points, at_once=2)]
    assert told == [("sao", 0), ("sao", 1), ("fedl", 0), ("fedl", 1), ("sao", 2), ("fedl", 2)]
    assert [len(kind) for kind in cells.shared_training_groups(found.points)] == [2, 2, 2]


def test_cells_without_learning_have_no_twins(sweep: Sweep) -> None:
    assert [len(kind) for kind in cells.shared_training_groups(sweep.points)] == [1] * 4
    assert cells.in_order(sweep.points, at_once=3) == list(sweep.points)
