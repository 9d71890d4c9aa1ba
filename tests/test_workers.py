"""Worker processes: they answer, they fail aloud, and they end with their parent."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor
from pathlib import Path

import pytest

from netsim.base.platform_info import fewer_collections
from netsim.executors.workers import InProcess, Workers

# A parent with two workers that sleep in the middle of a job; it prints their process ids.
PARENT = """
import os, time
from netsim.executors.workers import Workers
def who():
    time.sleep(0.1)
    return os.getpid()
with Workers(2) as pool:
    ids = {future.result() for future in [pool.submit(who) for _ in range(4)]}
    jobs = [pool.submit(time.sleep, 60) for _ in range(5)]
    print(*ids, flush=True)
    jobs[0].result()
"""


def test_jobs_run_side_by_side() -> None:
    with Workers(2) as pool:
        ids = {future.result() for future in [pool.submit(_slow_id) for _ in range(4)]}
        assert len(ids) == 2
        assert os.getpid() not in ids
        assert pool.submit(divmod, 7, 2).result() == (3, 1)


def test_garbage_collection_in_a_worker_is_as_usual_but_leaves_the_shared_memory_alone() -> None:
    usual = gc.get_threshold()
    with fewer_collections(), Workers(1) as pool:
        assert pool.submit(gc.get_freeze_count).result() > 1_000
        assert gc.get_threshold() != usual
        assert pool.submit(gc.get_threshold).result() == usual


def _slow_id() -> int:
    time.sleep(0.1)
    return os.getpid()


def test_in_process_work_is_done_at_once_and_fails_when_asked_for() -> None:
    assert InProcess().submit(divmod, 7, 2).result() == (3, 1)
    failed = InProcess().submit(divmod, 7, 0)
    with pytest.raises(ZeroDivisionError):
        failed.result()


def test_an_error_comes_back_with_its_place() -> None:
    with Workers(2) as pool:
        with pytest.raises(ZeroDivisionError) as caught:
            pool.submit(divmod, 1, 0).result()
        assert "in a worker" in caught.value.__notes__[0]
        with pytest.raises(RuntimeError, match="pickle"):
            pool.submit(threading.Lock).result()
        assert pool.submit(int, "3").result() == 3    # the worker lives on


def test_a_dead_worker_breaks_the_pool_at_once() -> None:
    with Workers(2) as pool:
        dead = pool.submit(os._exit, 3)
        with pytest.raises(BrokenExecutor):
            dead.result()
        with pytest.raises(BrokenExecutor):
            pool.submit(int).result()


def test_workers_end_with_the_block_even_in_the_middle_of_work() -> None:
    before = set(multiprocessing.active_children())
    with Workers(2) as pool:
        for _ in range(4):
            pool.submit(time.sleep, 60)
    assert set(multiprocessing.active_children()) <= before


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_parent_and_say_nothing(sent: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )
    assert parent.stdout is not None
    ids = [int(word) for word in parent.stdout.readline().split()]
    if sent is signal.SIGINT:
        os.killpg(parent.pid, sent)    # as a terminal does: to all of them
    else:
        parent.send_signal(sent)
    _, said = parent.communicate(timeout=20)
    deadline = time.monotonic() + 20
    while any(_alive(worker) for worker in ids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_alive(worker) for worker in ids)
    assert said.count("Traceback") == (1 if sent is signal.SIGINT else 0)    # the parent's own


def _alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
