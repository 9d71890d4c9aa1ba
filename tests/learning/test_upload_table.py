"""The table of uploaded models survives a crash between any two writes."""

import numpy as np
import pytest
from refused import refused

from netsim.learning.last_uploads import UploadTable


def models(*values):
    return np.array([[value, value + 0.5] for value in values], np.float32)


def test_rows_change_only_when_committed(tmp_path):
    uploads = UploadTable(tmp_path, 3, 2, complete_round=0)
    uploads.stage(1, np.array([0, 2]), models(1, 3))
    assert not uploads.weights.any()
    uploads.commit()
    assert uploads.weights.tolist() == [[1.0, 1.5], [0.0, 0.0], [3.0, 3.5]]


def test_a_crash_after_the_checkpoint_plays_the_journal_again(tmp_path):
    uploads = UploadTable(tmp_path, 3, 2, complete_round=0)
    uploads.stage(1, np.array([0, 2]), models(1, 3))
    uploads.commit()
    uploads.stage(2, np.array([1]), models(7))
    # crash here, with the checkpoint of round 2 written
    assert UploadTable(tmp_path, 3, 2, complete_round=2).weights.tolist() == [[1.0, 1.5], [7.0, 7.5], [3.0, 3.5]]


def test_a_crash_before_the_checkpoint_drops_the_journal(tmp_path):
    uploads = UploadTable(tmp_path, 3, 2, complete_round=0)
    uploads.stage(1, np.array([0, 2]), models(1, 3))
    uploads.commit()
    uploads.stage(2, np.array([1]), models(7))
    # crash here, with the checkpoint still that of round 1
    assert UploadTable(tmp_path, 3, 2, complete_round=1).weights.tolist() == [[1.0, 1.5], [0.0, 0.0], [3.0, 3.5]]


def test_a_run_that_starts_over_starts_with_an_empty_table(tmp_path):
    uploads = UploadTable(tmp_path, 3, 2, complete_round=0)
    uploads.stage(1, np.array([0]), models(1))
    assert not UploadTable(tmp_path, 3, 2, complete_round=0).weights.any()


def test_nobody_can_write_to_the_view(tmp_path):
    assert not UploadTable(tmp_path, 3, 2, complete_round=0).weights.flags.writeable


def test_removing_leaves_nothing_behind(tmp_path):
    uploads = UploadTable(tmp_path, 3, 2, complete_round=0)
    uploads.stage(1, np.array([0]), models(1))
    uploads.remove()
    assert list(tmp_path.iterdir()) == []
    UploadTable(tmp_path, 3, 2, complete_round=0).remove()      # also when no round ever came


def test_the_journal_counts_also_where_nobody_arrived_since(tmp_path):
    uploads = UploadTable(tmp_path, 3, 2, complete_round=0)
    uploads.stage(3, np.array([1]), models(7))
    # a power cut after round 4, in which nobody arrived, took what was written to the table
    assert UploadTable(tmp_path, 3, 2, complete_round=4).weights.tolist() == [[0.0, 0.0], [7.0, 7.5], [0.0, 0.0]]


@pytest.mark.parametrize("damage", ["missing", "short", "link", "journal"])
def test_damage_is_named_and_nothing_is_made_up(tmp_path, damage):
    uploads = UploadTable(tmp_path, 3, 2, complete_round=0)
    uploads.stage(1, np.array([0]), models(1))
    uploads.commit()
    table, journal = tmp_path / "uploads.f32", tmp_path / "uploads-journal.npz"
    if damage == "journal":
        journal.write_bytes(journal.read_bytes()[:50])
    elif damage == "short":
        table.write_bytes(b"\0" * 8)
    else:
        content = table.read_bytes()
        table.unlink()
        if damage == "link":
            (tmp_path / "other").write_bytes(content)
            table.symlink_to(tmp_path / "other")
    with refused("damaged", "uploads"):
        UploadTable(tmp_path, 3, 2, complete_round=1)
