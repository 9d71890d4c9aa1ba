"""Named arrays go to disk and come back; what is not a checkpoint is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from refused import refused

from netsim.base.errors import InputError
from netsim.learning.checkpoint import load_state, save_state


def test_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    state = {
        "weights": np.arange(5, dtype=np.float32),
        "counts": np.array([[1, 2], [3, 4]]),
        "clock": np.array([0.1, np.nan]),
        "used": np.array([True, False]),
        "nothing": np.zeros(0, dtype=np.uint8),
    }
    save_state(tmp_path / "checkpoint.pt", state)
    back = load_state(tmp_path / "checkpoint.pt")
    assert list(back) == list(state)
    for name, array in state.items():
        assert back[name].dtype == array.dtype
        np.testing.assert_array_equal(back[name], array)
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_a_read_only_array_can_be_saved(tmp_path: Path) -> None:
    array = np.ones(3)
    array.flags.writeable = False
    save_state(tmp_path / "c.pt", {"a": array})
    assert load_state(tmp_path / "c.pt")["a"].tolist() == [1, 1, 1]


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("code from a checkpoint has run",)


@pytest.mark.parametrize("content", [{"a": Evil()}, [1, 2], {"a": 1}])
def test_only_arrays_are_read(content: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save(content, tmp_path / "c.pt")
    with pytest.raises(InputError, match=r"c\.pt"):
        load_state(tmp_path / "c.pt")
    assert capsys.readouterr().out == ""


def test_a_broken_or_missing_file_is_named(tmp_path: Path) -> None:
    with refused("unreadable", "c.pt"):
        load_state(tmp_path / "c.pt")
    save_state(tmp_path / "c.pt", {"a": np.arange(1000)})
    content = (tmp_path / "c.pt").read_bytes()
    (tmp_path / "c.pt").write_bytes(content[:-100])
    with refused("unreadable", "c.pt"):
        load_state(tmp_path / "c.pt")


@pytest.mark.parametrize("content", [b"hello\n", b"", b"PK\x03\x04", b"\x80\x02}q\x00."])
def test_any_other_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "c.pt").write_bytes(content)
    with pytest.raises(InputError, match=r"c\.pt"):
        load_state(tmp_path / "c.pt")


def test_tensors_that_numpy_does_not_know_are_refused(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(2, dtype=torch.bfloat16)}, tmp_path / "c.pt")
    with refused("malformed", "c.pt"):
        load_state(tmp_path / "c.pt")
