"""A sweep on a Dask cluster: a scheduler and two workers as processes of their own, one of them killed midway."""

import itertools
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from refused import refused

from netsim.base.errors import InputError
from netsim.learning.pool import InProcess
from netsim.sweep.executor import OnCluster, Place, place_for
from netsim.sweep.points import SweepProgress, run_point
from netsim.sweep.sweep import run_all, table
from netsim.sweep.sweep_file import Sweep, load_sweep

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow


@contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def scheduler_at(address: str) -> tuple[str, ...]:
    return ("distributed.cli.dask_scheduler", "--host", address, "--no-dashboard")


def worker_of(address: str) -> tuple[str, ...]:
    return ("distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard")


def far_sweep(folder: Path) -> Sweep:
    file = folder / "far.toml"
    file.write_text('scenario = "paper"\nseeds = 6\nlearning = false\n'
                    '[set]\nselection.method = "fedavg"\nend.rounds = 120\n')
    return load_sweep(file, folder / "results")


def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    sweep = far_sweep(tmp_path)
    address = f"tcp://127.0.0.1:{free_port()}"
    with (
        process(*scheduler_at(address)), process(*worker_of(address)) as first, process(*worker_of(address)),
    ):
        killed: list[int] = []

        def kill_one_midway(progress: SweepProgress) -> None:
            if progress.finished >= 1 and not killed:
                first.kill()
                killed.append(first.pid)

        run_all(sweep, place_for(None, address), kill_one_midway)
    assert killed
    found = table(sweep)
    assert found["seed"].to_list() == list(range(6))
    assert found["rounds"].to_list() == [120] * 6
    records = sorted((sweep.folder / "cells").iterdir())
    assert len(records) == 6
    here = run_point(sweep.points[5].scenario, 5, tmp_path / "here", learning=False)
    there = json.loads(sweep.points[5].record.read_text())
    assert there["trace_sha256"] == here["trace_sha256"]


@pytest.mark.parametrize("under_way", [
    pytest.param(False, id="between results", marks=pytest.mark.extended),
    pytest.param(True, id="while a result is under way")])
def test_a_scheduler_that_dies_midway_is_named_and_the_sweep_goes_on_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], under_way: bool,
) -> None:
    monkeypatch.setattr("netsim.sweep.executor.PATIENCE_S", 15)
    sweep, fetch, fetched = far_sweep(tmp_path), distributed.Client._gather_remote, itertools.count(1)
    address = f"tcp://127.0.0.1:{free_port()}"
    with process(*scheduler_at(address)) as scheduler, process(*worker_of(address)):

        def kill() -> None:
            monkeypatch.setattr("netsim.sweep.executor.PATIENCE_S", 1)      # it will not come back
            scheduler.kill()
            scheduler.wait()

        def kill_midway(progress: SweepProgress) -> None:
            if progress.finished >= 1 and not under_way:
                kill()

        async def die_at_the_second(*args: Any, **options: Any) -> Any:
            if next(fetched) == 2 and under_way:
                kill()
            return await fetch(*args, **options)

        monkeypatch.setattr(distributed.Client, "_gather_remote", die_at_the_second)
        with refused("needs", "--cluster"):
            run_all(sweep, place_for(None, address), kill_midway)
    assert "Traceback" not in capfd.readouterr().err
    kept = {point.record: point.record.read_bytes() for point in sweep.points if point.finished}
    assert 1 <= len(kept) < 6
    run_all(sweep, Place(InProcess, at_once=1))
    assert table(sweep)["rounds"].to_list() == [120] * 6
    assert {record: record.read_bytes() for record in kept} == kept


class SilentClient:
    """A client whose scheduler dies while results are under way: Dask never ends such a future."""

    def __init__(self, status: str) -> None:
        self.status = status

    def get_executor(self, *, pure: bool) -> "SilentClient":
        return self

    def submit(self, *call: Any) -> Future[Any]:
        return Future()


def test_results_that_were_under_way_when_the_scheduler_died_are_not_waited_for(tmp_path: Path) -> None:
    sweep = far_sweep(tmp_path)
    clients = iter([SilentClient("connecting"), SilentClient("closed")])

    @contextmanager
    def opened() -> Iterator[Executor]:
        client = next(clients, None)
        if client is None:
            raise InputError("needs", "--cluster", expected="a Dask scheduler that responds")
        yield OnCluster(client)

    with refused("needs", "--cluster"):
        run_all(sweep, Place(opened, at_once=None))
    assert not any(point.failure.exists() for point in sweep.points)      # theirs was not the fault


def test_a_cluster_that_does_not_answer_is_named(monkeypatch: Any) -> None:
    monkeypatch.setattr("netsim.sweep.executor.PATIENCE_S", 1)
    address = f"tcp://127.0.0.1:{free_port()}"
    with refused("needs", "--cluster"), place_for(None, address).open():
        pass


def test_an_address_that_is_none_is_refused_in_one_message(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text('scenario = "tiny"\nlearning = false\n')
    command = [sys.executable, "-m", "netsim", "sweep", "one.toml", "--cluster", "nowhere at all"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--cluster: needs" in done.stderr
    assert "nowhere at all" in done.stderr
    assert "Traceback" not in done.stderr      # nor from a client that is collected at the end
