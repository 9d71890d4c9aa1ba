"""The table of uploaded models survives a crash between any two writes."""

import numpy as np

from netsim.uploads import Uploads


def models(*values):
    return np.array([[value, value + 0.5] for value in values], np.float32)


def test_rows_change_only_when_committed(tmp_path):
    uploads = Uploads(tmp_path, 3, 2, complete_round=0)
    uploads.stage(1, np.array([0, 2]), models(1, 3))
    assert not uploads.weights.any()
    uploads.commit()
    assert uploads.weights.tolist() == [[1.0, 1.5], [0.0, 0.0], [3.0, 3.5]]


def test_a_crash_after_the_checkpoint_plays_the_journal_again(tmp_path):
    uploads = Uploads(tmp_path, 3, 2, complete_round=0)
    uploads.stage(1, np.array([0, 2]), models(1, 3))
    uploads.commit()
    uploads.stage(2, np.array([1]), models(7))
    # crash here, with the checkpoint of round 2 written
    assert Uploads(tmp_path, 3, 2, complete_round=2).weights.tolist() == [[1.0, 1.5], [7.0, 7.5], [3.0, 3.5]]


def test_a_crash_before_the_checkpoint_drops_the_journal(tmp_path):
    uploads = Uploads(tmp_path, 3, 2, complete_round=0)
    uploads.stage(1, np.array([0, 2]), models(1, 3))
    uploads.commit()
    uploads.stage(2, np.array([1]), models(7))
    # crash here, with the checkpoint still that of round 1
    assert Uploads(tmp_path, 3, 2, complete_round=1).weights.tolist() == [[1.0, 1.5], [0.0, 0.0], [3.0, 3.5]]


def test_a_run_that_starts_over_starts_with_an_empty_table(tmp_path):
    uploads = Uploads(tmp_path, 3, 2, complete_round=0)
    uploads.stage(1, np.array([0]), models(1))
    assert not Uploads(tmp_path, 3, 2, complete_round=0).weights.any()


def test_nobody_can_write_to_the_view(tmp_path):
    assert not Uploads(tmp_path, 3, 2, complete_round=0).weights.flags.writeable


def test_removing_leaves_nothing_behind(tmp_path):
    uploads = Uploads(tmp_path, 3, 2, complete_round=0)
    uploads.stage(1, np.array([0]), models(1))
    uploads.remove()
    assert list(tmp_path.iterdir()) == []
    Uploads(tmp_path, 3, 2, complete_round=0).remove()      # also when no round ever came
