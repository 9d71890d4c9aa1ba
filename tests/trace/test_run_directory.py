"""A run directory is whole after every step, and belongs to one run."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from refused import refused

from netsim.base import files
from netsim.base.errors import InputError
from netsim.learning.backend import NoLearning
from netsim.trace import journal as journals
from netsim.trace.journal import Journal
from netsim.trace.recorder import Recorder
from netsim.trace.run_directory import is_being_written, next_free, read_info
from netsim.trace.schema import SERVER

IDENTITY = {"scenario": "toy", "scenario_sha256": "ab", "seed": 1, "learning": False}


class Room:
    """Keeps a number."""

    def __init__(self, number=0):
        self.number = number

    def snapshot(self):
        return {"number": np.array(self.number)}

    def restore(self, state):
        self.number = int(state["number"])


def opened(path, identity=IDENTITY):
    return Journal(path, identity)


def created(path):
    journal = opened(path)
    journal.claim()
    journal.begin("name = 'toy'\n", b"devices")
    return journal


def commit(journal, round_):
    recorder = Recorder()
    recorder.restore({"counts": np.array([0, round_ - 1])})
    recorder.instant("select", SERVER, float(round_))
    journal.commit(round_, recorder, {"toy": Room(10 * round_)}, NoLearning.__new__(NoLearning))


def test_a_new_run_can_be_resumed_from_the_very_start(tmp_path):
    created(tmp_path / "run").close()
    assert read_info(tmp_path / "run")["status"] == "running"
    assert opened(tmp_path / "run").resume() is None


def test_resuming_gives_the_last_state_and_drops_what_lies_past_it(tmp_path):
    directory = created(tmp_path)
    commit(directory, 1)
    commit(directory, 2)
    directory.close()
    (tmp_path / "trace" / "part-00003.parquet").write_bytes(b"a part whose checkpoint never came")
    (tmp_path / "trace" / "part-00004.parquet.tmp").write_bytes(b"half")
    again = opened(tmp_path)
    state = again.resume()
    assert state is not None
    assert (again.round, int(state["toy/number"])) == (2, 20)
    assert sorted(path.name for path in (tmp_path / "trace").iterdir()) == ["part-00001.parquet", "part-00002.parquet"]
    commit(again, 3)
    assert (tmp_path / "trace" / "part-00003.parquet").exists()


@pytest.mark.parametrize(("key", "value"), [("seed", 2), ("scenario_sha256", "cd"), ("learning", True)])
def test_the_directory_of_another_run_is_refused_and_left_alone(tmp_path, key, value):
    directory = created(tmp_path)
    commit(directory, 1)
    directory.close()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with refused("other-run", str(tmp_path)):
        opened(tmp_path, {**IDENTITY, key: value}).resume()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_folder_with_something_in_it_is_not_written_to(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError) as caught:
        created(tmp_path)
    assert caught.value.code == "exists"
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_finished_run_is_not_overwritten(tmp_path):
    directory = created(tmp_path)
    commit(directory, 1)
    directory.finish({"rounds": 1})
    directory.close()
    with pytest.raises(InputError) as caught:
        created(tmp_path)
    assert caught.value.code == "exists"
    assert json.loads((tmp_path / "summary.json").read_text()) == {"rounds": 1}


@pytest.mark.parametrize("half", ["scenario.toml.tmp", "devices.parquet.tmp", "run.json.tmp"])
def test_a_run_that_was_killed_before_it_began_can_begin_again(tmp_path, half):
    (tmp_path / "trace").mkdir()
    (tmp_path / half).write_text("ha")
    created(tmp_path)
    assert read_info(tmp_path)["round"] == 0


def test_two_processes_cannot_write_one_run(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LET_GO_S", 0.0)
    directory = created(tmp_path)
    assert is_being_written(tmp_path)
    with refused("busy", str(tmp_path)):
        opened(tmp_path).resume()
    directory.close()
    assert not is_being_written(tmp_path)


def test_a_run_that_came_while_the_lock_was_awaited_is_not_overwritten(tmp_path, monkeypatch):
    """The other process began and finished between the first look and the lock."""
    def hold(path, held):
        monkeypatch.undo()
        other = created(tmp_path)
        commit(other, 1)
        other.finish({"rounds": 1})
        other.close()
        return files.hold(path, held)

    monkeypatch.setattr(journals, "hold", hold)
    with pytest.raises(InputError) as caught:
        created(tmp_path)
    assert caught.value.code == "exists"
    assert json.loads((tmp_path / "summary.json").read_text()) == {"rounds": 1}


def test_starts_at_the_same_time_get_a_folder_each(tmp_path):
    together = Barrier(64)

    def start(_):
        together.wait()
        with next_free(tmp_path / "results", "toy", resume=False) as folder:
            together.wait()
            created(folder).close()
        return folder

    with ThreadPoolExecutor(64) as pool:
        folders = set(pool.map(start, range(64)))
    assert len(folders) == 64
    assert all(read_info(folder) for folder in folders)


def test_a_folder_that_nothing_was_written_into_is_removed(tmp_path):
    for _ in range(2):
        with pytest.raises(InputError), next_free(tmp_path, "toy", resume=False) as folder:
            raise InputError("needs", "a key")
        assert (folder, list(tmp_path.iterdir())) == (tmp_path / "toy", [])


def test_a_broken_checkpoint_is_named(tmp_path):
    created(tmp_path).close()
    (tmp_path / "checkpoint.npz").write_bytes(b"not a zip")
    with refused("damaged", "checkpoint.npz"):
        opened(tmp_path).resume()


def test_a_checkpoint_with_pickled_objects_is_refused(tmp_path):
    created(tmp_path).close()
    np.savez(tmp_path / "checkpoint.npz", round=np.array([{"code": print}], dtype=object))
    with refused("damaged", "checkpoint.npz"):
        opened(tmp_path).resume()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99, "round": 1}', '{"format": 1, "round": "x"}',
                                  '{"format": 2, "round": "x"}'])
def test_a_broken_run_json_is_named(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(InputError, match="run.json|format 1"):
        read_info(tmp_path)


def test_what_is_no_run_directory_is_named(tmp_path):
    with refused("no-such-file", "missing"):
        read_info(tmp_path / "missing")
    with refused("not-a-run", str(tmp_path)):
        read_info(tmp_path)


def test_links_in_a_strangers_folder_lead_nowhere(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    run = tmp_path / "run"
    directory = created(run)
    commit(directory, 1)
    directory.close()
    (run / "run.json.tmp").symlink_to(victim)
    opened(run).resume()
    assert victim.read_text() == "mine"
    (run / "lock").unlink()
    (run / "lock").symlink_to(victim)
    with pytest.raises(InputError, match="lock: .*found a link"):
        opened(run).resume()
    (run / "lock").unlink()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "part.tmp").write_text("mine")
    (run / "links" / "part-00001.parquet").unlink()
    (run / "links").rmdir()
    (run / "links").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="links: .*found a link"):
        opened(run).resume()
    assert (tmp_path / "elsewhere" / "part.tmp").exists()


def test_a_part_that_was_damaged_is_named_before_a_run_goes_on(tmp_path):
    journal = created(tmp_path)
    commit(journal, 1)
    journal.close()
    part = tmp_path / "jobs" / "part-00001.parquet"
    part.write_bytes(part.read_bytes() + b"!")
    with refused("damaged", "part-00001.parquet"):
        opened(tmp_path).resume()


def test_a_line_of_the_checksums_that_was_cut_short_is_dropped(tmp_path):
    journal = created(tmp_path)
    commit(journal, 1)
    journal.close()
    sums = tmp_path / "checksums.sha256"
    whole = sums.read_text()
    sums.write_text(whole + "0123456789abcdef  trace/part-0")
    opened(tmp_path).resume()
    assert sums.read_text() == whole
