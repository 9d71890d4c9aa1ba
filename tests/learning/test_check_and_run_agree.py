"""What `run` refuses of a file of arrays and its model, `check` refuses with the same error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netsim import load_scenario, simulate
from netsim.base.errors import InputError
from netsim.validation import check_whole

ARRAYS = ["learning.dataset=arrays", "learning.root=."]


def arrays(folder: Path, side: int = 28, **more: Any) -> None:
    count = np.arange(60)
    images = np.zeros((60, side, side), np.uint8) + count[:, None, None].astype(np.uint8)
    np.savez(folder / "x.npz", **{
        "train_images": images, "train_labels": count % 10, "test_images": images, "test_labels": count % 10, **more})


def cut(folder: Path) -> None:
    arrays(folder)
    (folder / "x.npz").write_bytes((folder / "x.npz").read_bytes()[:2000])


def text(folder: Path) -> None:
    (folder / "x.npz").write_text("no archive")


def flipped(folder: Path) -> None:
    arrays(folder)
    content = bytearray((folder / "x.npz").read_bytes())
    content[-5000:-4960] = b"\xff" * 40
    (folder / "x.npz").write_bytes(content)


WORLDS: dict[str, tuple[Callable[[Path], Any], list[str]]] = {
    "cut off": (cut, ARRAYS), "no archive": (text, ARRAYS), "a damaged array": (flipped, ARRAYS),
    "nothing there": (lambda folder: None, ARRAYS),
    "pickled": (lambda folder: arrays(folder, train_labels=np.array([{}] * 60, object)), ARRAYS),
    "too few labels": (lambda folder: arrays(folder, test_labels=np.zeros(3, int)), ARRAYS),
    "small images for the network": (lambda folder: arrays(folder, side=8), [*ARRAYS, "learning.model=mnist-cnn"]),
}


@pytest.mark.parametrize("world", WORLDS)
def test_check_refuses_what_run_refuses(world, tmp_path, monkeypatch):
    write, changes = WORLDS[world]
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    scenario = load_scenario("quickstart", ["selection.method=fedavg", *changes])
    with pytest.raises(InputError) as run:
        simulate(scenario, workers=1)
    with pytest.raises(InputError) as check:
        check_whole(scenario)
    assert (check.value.code, check.value.key) == (run.value.code, run.value.key)
