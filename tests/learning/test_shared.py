"""What runs share: the same bits, trained once, and never the wrong ones."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from netsim import load_scenario, simulate
from netsim.base.types import State
from netsim.learning import sgd, training_cache, worker_tasks
from netsim.learning.datasets import load_dataset
from netsim.learning.sgd import Task, Update, columns_of, updates_of
from netsim.learning.training_cache import TrainingCache, key_of_test, key_of_training, once

SMALL = ["population.phone.count=6", "selection.cohort=2", "end.rounds=2", "population.phone.samples=20"]


def count_groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the groups that are trained from now on."""
    sizes: list[int] = []

    def counted(*args: object) -> list[Update]:
        sizes.append(len(args[3]))     # type: ignore[arg-type]
        return sgd.train_group(*args)     # type: ignore[arg-type]

    monkeypatch.setattr(worker_tasks, "train_group", counted)
    return sizes


def bytes_of(run: Path) -> dict[str, bytes]:
    """Every file that a run leaves, but those that say where it lies."""
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in sorted(run.rglob("*"))
            if path.is_file() and path.name not in ("run.json", "summary.json")}


@pytest.mark.slow
def test_runs_that_begin_alike_train_their_first_round_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenarios = [load_scenario("quickstart", [*SMALL, f"selection.method={name}"]) for name in ("fedavg", "divergence")]
    alone = [simulate(scenario, seed=3, workers=1).summary for scenario in scenarios]
    trained = count_groups(monkeypatch)
    begun = TrainingCache(tmp_path / "shared", every_round=False)
    first, second = [simulate(scenario, seed=3, workers=1, shared=begun).summary for scenario in scenarios]
    assert sum(trained) == 6 + 2 + 2
    assert [first["trace_sha256"], second["trace_sha256"]] == [summary["trace_sha256"] for summary in alone]
    assert [first["accuracy"], second["accuracy"]] == [summary["accuracy"] for summary in alone]
    simulate(scenarios[0], seed=4, workers=1, shared=begun)
    assert sum(trained) == 6 + 2 + 2 + 6 + 2


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["learning.fedl=0.5"], ["server.kind=fedbuff"]],
                         ids=["rounds", "gradients", "as they come"])
def test_runs_that_differ_in_the_band_alone_train_once_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str],
) -> None:
    scenarios = [load_scenario("quickstart", [*SMALL, *more, "selection.method=fedavg", f"cell.bandwidth={band}"])
                 for band in ("20MHz", "10MHz")]
    for at, scenario in enumerate(scenarios):
        simulate(scenario, tmp_path / f"alone-{at}", seed=3, workers=1)
    trained = count_groups(monkeypatch)
    for at, scenario in enumerate(scenarios):
        simulate(scenario, tmp_path / f"shared-{at}", seed=3, workers=1, shared=TrainingCache(tmp_path / "shared"))
        if not at:
            whole = sum(trained)
    if not more:
        assert (whole, sum(trained)) == (6 + 2, 6 + 2)      # the first alone
    for at in range(2):
        assert bytes_of(tmp_path / f"shared-{at}") == bytes_of(tmp_path / f"alone-{at}")


def updates(gradient: bool = False) -> list[Update]:
    return [Update(device, np.full(3, device, np.float32), 0.1 * device, 0.2, 5,
                   np.full(3, 7, np.float32) if gradient else None,
                   np.arange(2.0) if gradient else None) for device in (4, 2)]


def trained_once(folder: Path, key: str, train: Callable[[], list[Update]]) -> list[Update]:
    return updates_of(once(folder, key, lambda: columns_of(train())))


@pytest.mark.parametrize("gradient", [False, True])
def test_what_is_kept_comes_back_as_it_was(tmp_path: Path, gradient: bool) -> None:
    kept = trained_once(tmp_path / "new", "key", lambda: updates(gradient))
    again = trained_once(tmp_path / "new", "key", lambda: pytest.fail("trained again"))
    for one, other in zip(kept, again, strict=True):
        assert (one.device, one.loss, one.gradient_norm, one.samples) == (
            other.device, other.loss, other.gradient_norm, other.samples)
        np.testing.assert_array_equal(one.weights, other.weights)
        assert other.weights.dtype == np.float32
        for name in ("gradient", "buffers"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_damaged_file_is_trained_anew(tmp_path: Path) -> None:
    (tmp_path / "key.npz").write_bytes(b"PK\x03\x04 not whole")
    assert trained_once(tmp_path, "key", updates)[0].device == 4
    assert trained_once(tmp_path, "key", lambda: pytest.fail("trained again"))[1].device == 2


def test_without_a_place_to_keep_it_training_goes_on(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, no folder")
    assert len(trained_once(tmp_path / "taken", "key", updates)) == 2


def test_a_changed_number_is_noticed(tmp_path: Path) -> None:
    once(tmp_path, "key", lambda: {"loss": np.zeros(4)})
    whole = (tmp_path / "key.npz").read_bytes()
    (tmp_path / "key.npz").write_bytes(whole.replace(np.zeros(4).tobytes(), np.ones(4).tobytes()))
    assert once(tmp_path, "key", lambda: {"loss": np.full(4, 2.0)})["loss"].tolist() == [2.0] * 4


def test_what_was_not_used_for_longest_goes_when_there_is_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    for at, name in enumerate(("one", "two")):
        trained_once(tmp_path, name, updates)
        os.utime(tmp_path / f"{name}.npz", (at, at))
    trained_once(tmp_path, "one", lambda: pytest.fail("trained again"))      # it is the younger one now
    monkeypatch.setattr(training_cache, "MOST_BYTES", (tmp_path / "one.npz").stat().st_size * 5 // 2)
    trained_once(tmp_path, "three", updates)
    assert {path.name for path in tmp_path.glob("*.npz")} == {"one.npz", "three.npz"}


def _compute_slowly(folder: Path) -> None:
    def compute() -> State:
        with (folder / "computed").open("a") as file:
            file.write("once\n")
        time.sleep(0.3)
        return {"a": np.zeros(1)}

    once(folder, "key", compute)


def test_processes_that_want_the_same_at_the_same_time_compute_it_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_compute_slowly, args=(tmp_path,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert (tmp_path / "computed").read_text() == "once\n"


def test_every_argument_counts() -> None:
    weights = np.zeros(3, np.float32)
    data = load_dataset("digits")
    other_data = replace(data, train_images=data.train_images + np.uint8(1), test_labels=data.test_labels + 1)

    def task(device: int = 1, seed: int = 1, samples: int = 3) -> Task:
        return Task(device, np.arange(samples), np.random.default_rng(seed))

    def key(work="work", data=data, weights=weights, tasks=None, gradient=None) -> str:
        return key_of_training(work, data, weights, tasks or [task()], gradient)

    used = task()
    used.rng.random()
    others = [key("other"), key(weights=weights + 1), key(tasks=[task(2)]), key(tasks=[task(seed=2)]),
              key(tasks=[task(samples=4)]), key(tasks=[task(), task()]), key(gradient=weights), key(data=other_data),
              key(tasks=[used]), key(tasks=[replace(task(), buffers=np.zeros(2))])]
    assert key(tasks=[task()], weights=weights.copy()) == key()
    assert len({key(), *others}) == 1 + len(others)

    def test(work="work", data=data, weights=weights, first=0, buffers=None) -> str:
        some = slice(first, first + 5)
        return key_of_test(work, data, weights, data.test_images[some], data.test_labels[some], buffers)

    others = [test("other"), test(data=other_data), test(weights=weights + 1), test(first=1),
              test(buffers=np.zeros(2)), key()]
    assert len({test(), *others}) == 1 + len(others)
