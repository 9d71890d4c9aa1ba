"""Training of one run on a Dask cluster: the same bytes, whatever happens to its workers and its scheduler."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dask_processes import free_port, lose_task, scheduler_at, started, wait_for_workers, worker_of
from refused import refused

from netsim import load_scenario, simulate
from netsim.base.errors import InputError
from netsim.base.platform_info import versions
from netsim.executors import cluster
from netsim.executors.cluster import ClusterExecutor, provided, run_task
from netsim.learning import local_training

dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")

ROUNDS, PARAMETERS = 3, 113_744
WITHOUT_NETSIM = """
from importlib import metadata
def version(name, found=metadata.version):
    if name == "netsim":
        raise metadata.PackageNotFoundError(name)
    return found(name)
metadata.version = version
"""
NOT_IMPORTABLE = "import sys; sys.modules['netsim'] = None"      # installed, but Python does not find its folder


@contextmanager
def in_this_process() -> Iterator[Any]:
    """Two workers as threads of this process; Dask drops no copies, as it does every 2 s of those without a task."""
    with dask.config.set({"distributed.scheduler.active-memory-manager.start": False}), distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as found:
        yield found


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[ClusterExecutor]:
    """The executors that learners open."""
    found: list[ClusterExecutor] = []

    class Watched(ClusterExecutor):
        def __init__(self, address: str) -> None:
            super().__init__(address)
            found.append(self)

    monkeypatch.setattr(local_training, "ClusterExecutor", Watched)
    return found


@pytest.mark.slow
def test_a_cluster_gives_the_same_bytes_and_gets_each_model_once_per_worker(
    tmp_path: Path, opened: list[ClusterExecutor],
) -> None:
    scenario = load_scenario("quickstart", [f"end.rounds={ROUNDS}"])
    with in_this_process() as found:
        there = simulate(scenario, tmp_path / "there", cluster=found.scheduler_address)
        received = [key for worker in found.workers.values() for log in worker.transfer_incoming_log
                    for key in {(worker.address, key) for key in log["keys"]}]
    here = simulate(scenario, tmp_path / "here", workers=1)
    assert there.summary["trace_sha256"] == here.summary["trace_sha256"]
    assert there.info["processor"] == here.info["processor"]      # of the workers
    assert opened[0].bytes_sent == (ROUNDS + 1) * 4 * PARAMETERS      # the first model, and one after each round
    assert len(received) == len(set(received))      # from the other worker, at most once


def test_a_worker_asks_for_data_that_it_lacks_and_gets_them_once() -> None:
    with in_this_process() as found, ClusterExecutor(found.scheduler_address) as executor:
        executor.provide("abc", Box(np.arange(5)))
        assert [executor.submit(_sum_of, "abc", number).result(timeout=30) for number in range(4)] == [10, 11, 12, 13]
        assert executor.bytes_sent == 5 * 8
        with pytest.raises(ZeroDivisionError):
            executor.submit(divmod, 1, 0).result(timeout=30)
        assert executor.submit(np.sum, np.ones(10_000)).result(timeout=30) == 10_000
        assert executor.bytes_sent == 5 * 8 + 80_000


class Box:
    def __init__(self, content: np.ndarray) -> None:
        self.content = content


def _sum_of(digest: str, more: int) -> int:
    return int(provided(digest).content.sum()) + more


def test_other_versions_are_named() -> None:
    with refused("needs", "--cluster") as refusal:
        run_task(b"", [], {}, {**versions(), "torch": "1.0"})
    assert f"torch {versions()['torch']}" in str(refusal.value)
    assert "torch 1.0" in str(refusal.value)


@pytest.mark.parametrize(("options", "names"), [
    (["--workers", "2"], "--workers"), (["--no-learning", "--set", "selection.method=fedavg"], "without learning")])
def test_a_cluster_is_for_training_alone(netsim: Any, options: list[str], names: str) -> None:
    code, _, said = netsim("run", "quickstart", "--cluster", "tcp://nowhere:1", *options)
    assert code == 2
    assert names in said
    with refused("conflict", "cluster"):
        simulate("quickstart", cluster="tcp://nowhere:1", workers=2)
    with refused("wrong-type", "cluster"):
        simulate("quickstart", cluster=8786)      # type: ignore[arg-type]


def test_a_cluster_that_does_not_answer_ends_the_run_in_one_message(
    netsim: Any, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE_S", 1)
    code, _, said = netsim("run", "quickstart", "--cluster", f"tcp://127.0.0.1:{free_port()}")
    assert code == 2
    assert "--cluster: needs" in said
    assert "Traceback" not in said


class SilentClient:
    """A client whose scheduler dies while results are under way: Dask never ends such a future."""

    status = "connecting"

    def submit(self, *call: Any, **options: Any) -> Any:
        raise OSError

    def close(self) -> None:
        pass


def test_tasks_of_a_scheduler_that_stays_away_fail_and_so_do_later_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = iter([SilentClient()])

    def connect(address: str, packages: Any) -> Any:
        client = next(clients, None)
        if client is None:
            raise InputError("needs", "--cluster", expected="a Dask scheduler that responds")
        return client

    monkeypatch.setattr(cluster, "connect", connect)
    with ClusterExecutor("tcp://nowhere:1") as executor:
        for _ in range(2):
            with refused("needs", "--cluster"):
                local_training._result(executor.submit(divmod, 7, 2))


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, str]:
    """A scenario whose data only this process has, and the hash of its trace."""
    rng = np.random.default_rng(0)
    images = {f"{part}_images": rng.integers(0, 256, (count, 20, 20), np.uint8)
              for part, count in (("train", 1200), ("test", 1000))}
    labels = {f"{part}_labels": np.arange(count) % 10 for part, count in (("train", 1200), ("test", 1000))}
    monkeypatch.chdir(tmp_path)
    np.savez("mine.npz", **images, **labels)
    scenario = load_scenario("quickstart", [
        "learning.dataset=arrays", "learning.root=mine.npz", "learning.partition.kind=iid", "end.rounds=3"])
    expected = simulate(scenario, tmp_path / "here", workers=1).summary["trace_sha256"]
    (tmp_path / "mine.npz").unlink()      # this process has read it
    return scenario, expected


@pytest.mark.extended
def test_a_worker_that_dies_in_mid_round_and_one_that_joins_change_nothing(
    tmp_path: Path, far: tuple[Any, str], opened: list[ClusterExecutor], monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario, expected = far
    address = f"tcp://127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        stack.enter_context(started(*scheduler_at(address), folder="/"))
        first = stack.enter_context(started(*worker_of(address), folder="/"))

        def replace_worker() -> None:
            stack.enter_context(started(*worker_of(address), folder="/"))
            wait_for_workers(address, 2)
            first.kill()

        wait_for_workers(address, 1)
        lose_task(6, first, monkeypatch, replace_worker)      # in the second round
        run = simulate(scenario, tmp_path / "there", cluster=address)
    assert run.summary["trace_sha256"] == expected
    assert opened[0].bytes_sent > 880_000      # the images went there


@pytest.mark.extended
@pytest.mark.parametrize("back", [True, False], ids=["back at once", "away, then resumed"])
def test_a_scheduler_that_dies_in_mid_round(
    tmp_path: Path, far: tuple[Any, str], monkeypatch: pytest.MonkeyPatch, back: bool,
) -> None:
    scenario, expected = far
    address, patience = f"tcp://127.0.0.1:{free_port()}", cluster.PATIENCE_S
    with ExitStack() as stack:
        def start() -> list[subprocess.Popen[bytes]]:
            found = [stack.enter_context(started(*command, folder="/"))
                     for command in (scheduler_at(address), worker_of(address))]
            wait_for_workers(address, 1)
            return found

        scheduler, worker = start()

        def restart() -> None:
            if not back:
                monkeypatch.setattr(cluster, "PATIENCE_S", 1)
            for process in (scheduler, worker):
                process.kill()
                process.wait()
            if back:
                start()

        lose_task(6, worker, monkeypatch, restart)
        if back:
            run = simulate(scenario, tmp_path / "there", cluster=address)
        else:
            with refused("needs", "--cluster"):
                simulate(scenario, tmp_path / "there", cluster=address)
            monkeypatch.setattr(cluster, "PATIENCE_S", patience)
            start()
            run = simulate(scenario, tmp_path / "there", cluster=address, resume=True)
    assert run.summary["trace_sha256"] == expected


@pytest.mark.extended
@pytest.mark.parametrize("lacks", [WITHOUT_NETSIM, NOT_IMPORTABLE], ids=["not installed", "not importable"])
def test_a_worker_without_netsim_is_named(tmp_path: Path, lacks: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(lacks)
    address = f"tcp://127.0.0.1:{free_port()}"
    with started(*scheduler_at(address), folder="/"), started(
            *worker_of(address), folder="/", env={**os.environ, "PYTHONPATH": str(tmp_path)}):
        wait_for_workers(address, 1)
        command = [sys.executable, "-m", "netsim", "run", "quickstart", "--cluster", address]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "without netsim" in done.stderr
    assert "Traceback" not in done.stderr
