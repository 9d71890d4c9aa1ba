"""Splits: the shares that each kind promises, and who gets what when the stock runs out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

from netsim.base.errors import InputError
from netsim.base.types import Ints
from netsim.learning.partition import class_counts, partition
from netsim.scenario.learning import OwnPartition

LABELS = np.repeat(np.arange(10), 100)


def split(
    kind: str, samples: list[int] | None, devices: int = 10, seed: int = 0, labels: Ints = LABELS, **options: object
) -> list[Ints]:
    wanted = None if samples is None else np.array(samples)
    table = OwnPartition.model_construct(kind=kind, **options)
    return partition(labels, table, wanted, devices, np.random.default_rng(seed))


def counts(part: Ints) -> list[int]:
    return np.bincount(LABELS[part], minlength=10).tolist()


def test_majority_of_eight_tenths() -> None:
    for part in split("majority", [45] * 10, sigma=0.8):
        assert sorted(counts(part)) == [1] * 9 + [36]


def test_majority_of_everything_is_one_class() -> None:
    for part in split("majority", [20] * 10, sigma=1.0):
        assert sorted(counts(part)) == [0] * 9 + [20]


def test_two_classes_four_to_one() -> None:
    for part in split("two-class", [50] * 10):
        assert sorted(counts(part)) == [0] * 8 + [10, 40]


def test_iid_without_sizes_shares_everything_out() -> None:
    parts = split("iid", None)
    assert sorted(np.concatenate(parts).tolist()) == list(range(1000))
    assert {len(part) for part in parts} == {100}


def test_two_shards_a_device_hold_few_classes_and_cover_all_samples() -> None:
    parts = split("shards", None, devices=50, per_device=2)
    assert sorted(np.concatenate(parts).tolist()) == list(range(1000))
    assert max(np.count_nonzero(counts(part)) for part in parts) <= 2


def test_a_small_alpha_means_few_classes_and_a_large_one_means_all() -> None:
    few, many = (split("dirichlet", [100] * 10, alpha=alpha) for alpha in (0.01, 1000.0))
    assert np.mean([max(counts(part)) for part in few]) > 80
    assert np.mean([max(counts(part)) for part in many]) < 20


def test_devices_share_no_sample_while_the_stock_lasts() -> None:
    held = np.concatenate(split("dirichlet", [10] * 10, alpha=1000.0))
    assert len(set(held.tolist())) == len(held) == 100


def test_a_class_that_is_used_up_is_dealt_again() -> None:
    labels = np.zeros(10, dtype=np.int64)
    first, second = split("iid", [7, 7], devices=2, labels=labels)
    assert len(set(first)) == len(set(second)) == 7         # none twice on a device
    assert set(first) | set(second) == set(range(10))       # the three left over came first
    assert sorted(np.bincount(split("iid", [15, 1], devices=2, labels=labels)[0]).tolist()) == [1] * 5 + [2] * 5


@settings(deadline=None)      # the first call of a kind makes the check of its options
@given(
    kind=st.sampled_from([
        ("majority", {"sigma": 0.0}), ("majority", {"sigma": 0.37}), ("majority", {"sigma": 1.0}),
        ("two-class", {}), ("iid", {}), ("dirichlet", {"alpha": 0.3}), ("shards", {"per_device": 1}),
    ]),
    samples=st.lists(st.integers(1, 300), min_size=1, max_size=12),
    seed=st.integers(0, 2**32),
)    # fmt: skip
def test_every_kind_gives_each_device_its_number_of_samples(
    kind: tuple[str, dict[str, float]], samples: list[int], seed: int
) -> None:
    parts = split(kind[0], samples, len(samples), seed, **kind[1])
    assert [len(part) for part in parts] == samples
    assert all(((part >= 0) & (part < 1000)).all() for part in parts)
    again = split(kind[0], samples, len(samples), seed, **kind[1])
    assert all((a == b).all() for a, b in zip(parts, again, strict=True))


def test_classes_that_a_device_holds() -> None:
    counts = class_counts(LABELS, [np.array([0, 1, 500]), np.array([999, 200, 998])], 10)
    assert [np.flatnonzero(row).tolist() for row in counts] == [[0, 5], [2, 9]]
    assert counts.max(axis=1).tolist() == [2, 2]


def test_a_file_says_who_holds_what(tmp_path: Path) -> None:
    file = tmp_path / "split.json"
    file.write_text(json.dumps({"1": [5], "0": [3, 999, 4]}))
    assert [part.tolist() for part in split("file", None, 2, path=str(file))] == [[3, 999, 4], [5]]
    file.write_text("[[7], [8, 9]]")
    assert [part.tolist() for part in split("file", [50, 50], 2, path=str(file))] == [[7], [8, 9]]


@pytest.mark.parametrize(
    ("text", "code", "key"),
    [
        ('{"0": [1]}', "wrong-length", "split.json"),
        ('{"0": [1], "1": [2], "2": [3]}', "wrong-length", "split.json"),
        ('{"0": [1], "1": []}', "out-of-range", "split.json: device 1"),
        ('{"0": [1], "1": [1000]}', "out-of-range", "split.json: device 1"),
        ('{"0": [1], "1": [true]}', "out-of-range", "split.json: device 1"),
        ('{"0": [1], "1": 7}', "out-of-range", "split.json: device 1"),
        ("3", "wrong-length", "split.json"),
    ],
)
def test_a_file_at_fault(text: str, code: str, key: str, tmp_path: Path) -> None:
    file = tmp_path / "split.json"
    file.write_text(text)
    with refused(code, key):
        split("file", None, 2, path=str(file))


@pytest.mark.parametrize(
    ("kind", "options", "devices", "says"),
    [
        ("majority", {"sigma": 1.2}, 5, "sigma: is out of range"),
        ("majority", {"sigma": float("nan")}, 5, "sigma: is not a finite number"),
        ("dirichlet", {"alpha": 0}, 5, "alpha: is out of range"),
        ("shards", {"per_device": 500}, 5, "per_device: is out of range"),
        ("iid", {}, 1001, "learning.partition: cannot be met"),
        ("file", {"path": "nowhere.json"}, 5, "nowhere.json: cannot be read"),
    ],
)
def test_a_split_that_cannot_be(kind: str, options: dict[str, object], devices: int, says: str) -> None:
    with pytest.raises(InputError, match=says):
        split(kind, None, devices, **options)
