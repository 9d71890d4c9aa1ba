"""First rounds that runs share: the same bits, trained once, and never the wrong ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from netsim import load_scenario, simulate
from netsim.learning import first_rounds, learner, trainer
from netsim.learning.datasets import load_dataset
from netsim.learning.first_rounds import key_of, trained_once
from netsim.learning.trainer import Task, Update

SMALL = ["population.phone.count=6", "selection.cohort=2", "end.rounds=2", "population.phone.samples=20"]


def count_groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the groups that are trained from now on."""
    sizes: list[int] = []

    def counted(*args: object) -> list[Update]:
        sizes.append(len(args[3]))     # type: ignore[arg-type]
        return trainer.train_group(*args)     # type: ignore[arg-type]

    monkeypatch.setattr(learner, "train_group", counted)
    return sizes


@pytest.mark.slow
def test_runs_that_begin_alike_train_their_first_round_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenarios = [load_scenario("quickstart", [*SMALL, f"selection.method={name}"]) for name in ("fedavg", "divergence")]
    alone = [simulate(scenario, seed=3, workers=1).summary for scenario in scenarios]
    trained = count_groups(monkeypatch)
    first, second = [
        simulate(scenario, seed=3, workers=1, first_rounds=tmp_path / "shared").summary for scenario in scenarios]
    assert sum(trained) == 6 + 2 + 2
    assert [first["trace_sha256"], second["trace_sha256"]] == [summary["trace_sha256"] for summary in alone]
    assert [first["accuracy"], second["accuracy"]] == [summary["accuracy"] for summary in alone]
    simulate(scenarios[0], seed=4, workers=1, first_rounds=tmp_path / "shared")
    assert sum(trained) == 6 + 2 + 2 + 6 + 2


def updates(gradient: bool = False) -> list[Update]:
    return [Update(device, np.full(3, device, np.float32), 0.1 * device, 0.2, 5,
                   np.full(3, 7, np.float32) if gradient else None) for device in (4, 2)]


@pytest.mark.parametrize("gradient", [False, True])
def test_what_is_kept_comes_back_as_it_was(tmp_path: Path, gradient: bool) -> None:
    kept = trained_once(tmp_path / "new", "key", lambda: updates(gradient))
    again = trained_once(tmp_path / "new", "key", lambda: pytest.fail("trained again"))
    for one, other in zip(kept, again, strict=True):
        assert (one.device, one.loss, one.gradient_norm, one.samples) == (
            other.device, other.loss, other.gradient_norm, other.samples)
        np.testing.assert_array_equal(one.weights, other.weights)
        assert other.weights.dtype == np.float32
        assert (one.gradient is None) == (other.gradient is None)


def test_a_damaged_file_is_trained_anew(tmp_path: Path) -> None:
    (tmp_path / "key.npz").write_bytes(b"PK\x03\x04 not whole")
    assert trained_once(tmp_path, "key", updates)[0].device == 4
    assert trained_once(tmp_path, "key", lambda: pytest.fail("trained again"))[1].device == 2


def test_without_a_place_to_keep_it_training_goes_on(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, no folder")
    assert len(trained_once(tmp_path / "taken", "key", updates)) == 2


def test_the_oldest_go_when_there_is_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained_once(tmp_path, "one", updates)
    monkeypatch.setattr(first_rounds, "MOST_BYTES", (tmp_path / "one.npz").stat().st_size * 3 // 2)
    trained_once(tmp_path, "two", updates)
    assert [path.name for path in tmp_path.iterdir()] == ["two.npz"]


def test_every_argument_counts() -> None:
    weights = np.zeros(3, np.float32)
    data = load_dataset("digits")
    other_data = replace(data, train_images=data.train_images + np.uint8(1))

    def task(device: int = 1, seed: int = 1, samples: int = 3) -> Task:
        return Task(device, np.arange(samples), np.random.default_rng(seed))

    base = key_of("work", data, weights, [task()], None)
    assert base == key_of("work", data, weights.copy(), [task()], None)
    others = [
        key_of("other", data, weights, [task()], None), key_of("work", data, weights + 1, [task()], None),
        key_of("work", data, weights, [task(2)], None), key_of("work", data, weights, [task(seed=2)], None),
        key_of("work", data, weights, [task(samples=4)], None), key_of("work", data, weights, [task(), task()], None),
        key_of("work", data, weights, [task()], weights), key_of("work", other_data, weights, [task()], None)]
    assert len({base, *others}) == 1 + len(others)
    used = task()
    used.rng.random()
    assert key_of("work", data, weights, [replace(used)], None) != base
