"""Event files for TensorBoard, read back by TensorBoard's own reader."""

import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest

from netsim import Run, simulate
from netsim.analysis.export import export
from netsim.analysis.tensorboard import TAGS, masked_crc, record

NAME = "events.out.tfevents.netsim"


@pytest.fixture(scope="module")
def run() -> Run:
    return simulate({"base": "quickstart", "end": {"rounds": 3}, "learning": {"evaluation": {"every": 2}}}, workers=1)


@pytest.mark.slow
def test_tensorboard_reads_every_number_of_every_round(run: Run, tmp_path: Path) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    export(run, "tensorboard", tmp_path / NAME)
    events = list(loader.LegacyEventFileLoader(str(tmp_path / NAME)).Load())
    assert events[0].file_version == "brain.Event:2"
    rows = run.rounds.to_dicts()
    assert [event.step for event in events[1:]] == [1, 2, 3]
    for event, row in zip(events[1:], rows, strict=True):
        assert event.wall_time == row["t1"]
        found = {value.tag: value.simple_value for value in event.summary.value}
        expected = {tag: row[column] for column, tag in TAGS.items()
                    if row[column] is not None and not math.isnan(row[column])}
        assert found == pytest.approx(expected, rel=1e-6)
    assert "model/accuracy" not in {value.tag for value in events[1].summary.value}      # not evaluated
    multiplexer = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    accumulator = multiplexer.EventAccumulator(str(tmp_path)).Reload()
    assert len(accumulator.Scalars("round/duration_s")) == 3      # found in its folder, as by `tensorboard --logdir`


def test_a_record_has_its_length_and_checksums() -> None:
    content = b"123456789"
    found = record(content)
    assert struct.unpack("<Q", found[:8]) == (9,)
    assert found[12:-4] == content
    crc = (masked_crc(content) - 0xA282EAD8) & 0xFFFFFFFF
    assert (crc >> 17 | crc << 15) & 0xFFFFFFFF == 0xE3069283      # the check value of CRC-32C
    assert struct.unpack("<I", found[-4:]) == (masked_crc(content),)


def test_a_name_that_tensorboard_does_not_read_is_refused(netsim: Any, tmp_path: Path) -> None:
    assert netsim("run", "tiny", "--out", "run", "--progress", "none")[::2] == (0, "")
    code, _, said = netsim("export", "run", "--format", "tensorboard", "-o", "out.bin")
    assert code == 2
    assert "events.out.tfevents.netsim" in said
    assert netsim("export", "run", "--format", "tensorboard", "-o", NAME)[0] == 0
    assert (tmp_path / NAME).stat().st_size > 300


def test_progress_as_json_has_a_line_per_round(netsim: Any) -> None:
    code, out, said = netsim("run", "tiny", "--progress", "json", "--json")
    lines = [json.loads(line) for line in said.splitlines()]
    assert code == 0
    assert [line["round"] for line in lines] == [1, 2, 3]
    assert lines[-1]["time_s"] == pytest.approx(json.loads(out)["simulated_s"])
    assert lines[0].keys() == {"round", "rounds", "time_s", "energy_j", "accuracy", "target", "end_s"}
    assert lines[0]["accuracy"] is None
    code, _, said = netsim("run", "tiny", "--progress", "jsn")
    assert code == 2
    assert '"json"' in said
