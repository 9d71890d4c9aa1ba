"""A sweep on a Dask cluster: a scheduler and two workers as processes of their own, one of them killed midway."""

import asyncio
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dask_processes import free_port, lose_task, scheduler_at, started, wait_for_workers, worker_of
from refused import refused

from netsim.executors.factory import ExecutorFactory, place_for
from netsim.executors.workers import InProcess
from netsim.sweep.points import SweepProgress, run_point
from netsim.sweep.sweep import run_all, table
from netsim.sweep.sweep_file import Sweep, load_sweep

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow


def far_sweep(folder: Path) -> Sweep:
    file = folder / "far.toml"
    file.write_text('scenario = "paper"\nseeds = 6\nlearning = false\n'
                    '[set]\nselection.method = "fedavg"\nend.rounds = 120\n')
    return load_sweep(file, folder / "results")


def test_a_killed_worker_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = far_sweep(tmp_path)
    address = f"tcp://127.0.0.1:{free_port()}"
    with (
        started(*scheduler_at(address)), started(*worker_of(address)) as first, started(*worker_of(address)),
    ):
        killed: list[int] = []
        wait_for_workers(address, 2)
        lose_task(1, first, monkeypatch, lambda: None)      # it gets points, and computes none

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
    sweep, fetch, fetched = far_sweep(tmp_path), distributed.Client._gather_remote, itertools.count(1)
    address = f"tcp://127.0.0.1:{free_port()}"
    with started(*scheduler_at(address)) as scheduler, started(*worker_of(address)):
        wait_for_workers(address, 1)

        def kill() -> None:
            monkeypatch.setattr("netsim.executors.cluster.PATIENCE_S", 1)      # it will not come back
            scheduler.kill()
            scheduler.wait()

        def kill_midway(progress: SweepProgress) -> None:
            if progress.finished >= 1 and not under_way:
                kill()

        async def die_at_the_second(*args: Any, **options: Any) -> Any:
            number = next(fetched)
            if number == 2 and under_way:
                kill()
            while number >= 2 and scheduler.poll() is None:      # otherwise all results may arrive before the kill
                await asyncio.sleep(0.01)
            return await fetch(*args, **options)

        monkeypatch.setattr(distributed.Client, "_gather_remote", die_at_the_second)
        with refused("needs", "--cluster"):
            run_all(sweep, place_for(None, address), kill_midway)
    assert "Traceback" not in capfd.readouterr().err
    kept = {point.record: point.record.read_bytes() for point in sweep.points if point.finished}
    assert 1 <= len(kept) < 6
    run_all(sweep, ExecutorFactory(InProcess, at_once=1))
    assert table(sweep)["rounds"].to_list() == [120] * 6
    assert {record: record.read_bytes() for record in kept} == kept


def test_an_address_that_is_none_is_refused_in_one_message(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text('scenario = "tiny"\nlearning = false\n')
    command = [sys.executable, "-m", "netsim", "sweep", "one.toml", "--cluster", "nowhere at all"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--cluster: needs" in done.stderr
    assert "nowhere at all" in done.stderr
    assert "Traceback" not in done.stderr      # nor from a client that is collected at the end
