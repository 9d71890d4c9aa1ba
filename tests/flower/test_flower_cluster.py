"""ClientApps on a Dask cluster: the same bytes as in local workers, whatever happens to workers and scheduler."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from dask_processes import free_port, lose_task, scheduler_at, started, wait_for_workers, worker_of
from refused import refused
from small_apps import CLIENT, TASK, tiny, write_app

from netsim import load_scenario
from netsim.executors import cluster
from netsim.executors.cluster import ClusterExecutor
from netsim.flower import run_app, runner
from netsim.flower.app_folder import read_app
from netsim.flower.shipping import AppFiles

SIZE = 6000                # of a model in float32, which is sent once instead of with every message
LARGER = TASK.replace("SIZE = 3119", f"SIZE = {SIZE}")
# counts its messages in the node's context, fails on device 3, and reads a file of the app's folder
STATEFUL = CLIENT.replace("    trained = fit", """    if context.node_config["partition-id"] == 3:
        raise ValueError("no such luck")
    count = context.state.config_records.setdefault("count", ConfigRecord({"messages": 0}))
    count["messages"] += 1
    weights = weights + np.float32(count["messages"]) + np.load(Path(__file__).parent / "offset.npy")
    trained = fit""").replace("import random\n", """import random
from pathlib import Path

import numpy as np
from flwr.app import ConfigRecord
""")
LACKING = """
from importlib import metadata
def version(name, found=metadata.version):
    if name == "flwr":
        raise metadata.PackageNotFoundError(name)
    return found(name)
metadata.version = version
"""


def start(stack: ExitStack, address: str, *, workers: int = 1, **options: Any) -> list[subprocess.Popen[bytes]]:
    """Start a scheduler and workers, in another folder than that of the test; wait until all have joined."""
    found = [stack.enter_context(started(*command, folder="/", **options))
             for command in [scheduler_at(address), *[worker_of(address)] * workers]]
    wait_for_workers(address, workers)
    return found


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster of two workers."""
    with ExitStack() as stack:
        found = f"tcp://127.0.0.1:{free_port()}"
        start(stack, found, workers=2)
        yield found


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[ClusterExecutor]:
    """The executors that runs open."""
    found: list[ClusterExecutor] = []

    class Watched(ClusterExecutor):
        def __init__(self, address: str, needs: Any) -> None:
            super().__init__(address, needs)
            found.append(self)

    monkeypatch.setattr(runner, "ClusterExecutor", Watched)
    return found


def stateful_app(folder: Path) -> Path:
    import numpy as np

    app = write_app(folder, task=LARGER, client_app=STATEFUL)
    np.save(app / "quickstart" / "offset.npy", np.float32(0.25))
    return app


@pytest.mark.slow
def test_a_cluster_gives_the_same_bytes_and_gets_each_model_once(
    tmp_path: Path, address: str, opened: list[ClusterExecutor],
) -> None:
    app = stateful_app(tmp_path / "app")
    here = run_app(app, tiny(), tmp_path / "here", workers=2)
    there = run_app(app, tiny(), tmp_path / "there", cluster=address)
    assert there.summary["trace_sha256"] == here.summary["trace_sha256"]
    assert there.summary["failures"] == here.summary["failures"] == {
        "ValueError: no such luck (quickstart/client_app.py, line 20)": 3}
    assert there.info["processor"] == here.info["processor"]      # of the workers
    assert "arrived" in there.jobs["outcome"].to_list()
    models, files = 4 * SIZE * 4, AppFiles.of(read_app(app)).archive.nbytes      # the first, and one after each round
    assert models + files < opened[0].bytes_sent < 1.1 * models + files


@pytest.mark.slow
def test_a_worker_forgets_the_app_that_it_had_before(tmp_path: Path, address: str) -> None:
    first = run_app(write_app(tmp_path / "app"), tiny(), cluster=address)
    again = run_app(write_app(tmp_path / "app", task=TASK.replace("+ noise", "+ 2 * noise")), tiny(), cluster=address)
    local = run_app(tmp_path / "app", tiny(), workers=1)
    assert first.summary["trace_sha256"] != again.summary["trace_sha256"] == local.summary["trace_sha256"]


@pytest.mark.slow
@pytest.mark.parametrize("line", ["import only_here\n\nfrom", "from"], ids=["app", "message"])
def test_a_package_that_a_worker_lacks_is_named(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch, line: str,
) -> None:
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "only_here.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path / "packages")
    client = CLIENT.replace("from", line, 1).replace("    trained = fit", "    import only_here\n    trained = fit")
    with refused("needs", "--cluster") as refusal:
        run_app(write_app(tmp_path / "app", client_app=client), tiny(), tmp_path / "run", cluster=address)
    assert "without only_here" in str(refusal.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.extended
def test_a_worker_without_flower_is_named(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(LACKING)
    app, found = write_app(tmp_path / "app"), f"tcp://127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        start(stack, found, env={**os.environ, "PYTHONPATH": str(tmp_path)})
        command = [sys.executable, "-m", "netsim", "flower", str(app), "--scenario", "tiny", "--cluster", found]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "without flwr" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_what_is_measured_on_a_worker_is_used_again_on_resume(tmp_path: Path, address: str) -> None:
    class Interrupted(KeyboardInterrupt):
        pass

    def interrupt(at: Any) -> None:
        raise Interrupted

    app = write_app(tmp_path / "app")
    auto = load_scenario("phones", ["population.phone.count=5", "selection.cohort=1"])
    with pytest.raises(Interrupted):
        run_app(app, auto, tmp_path / "run", cluster=address, progress=interrupt)
    measured = (tmp_path / "run" / "compute.json").read_bytes()
    run_app(app, auto, tmp_path / "run", workers=1, resume=True)
    assert (tmp_path / "run" / "compute.json").read_bytes() == measured


@pytest.mark.extended
def test_a_worker_that_dies_in_mid_round_and_one_that_joins_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, found = stateful_app(tmp_path / "app"), f"tcp://127.0.0.1:{free_port()}"
    expected = run_app(app, tiny(), tmp_path / "here", workers=2).summary["trace_sha256"]
    with ExitStack() as stack:
        [_, worker] = start(stack, found)

        def replace_worker() -> None:
            stack.enter_context(started(*worker_of(found), folder="/"))
            wait_for_workers(found, 2)
            worker.kill()

        lose_task(11, worker, monkeypatch, replace_worker)      # the first of the second round
        run = run_app(app, tiny(), tmp_path / "there", cluster=found)
    assert run.summary["trace_sha256"] == expected


@pytest.mark.extended
@pytest.mark.parametrize("back", [True, False], ids=["back at once", "away, then resumed"])
def test_a_scheduler_that_dies_in_mid_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back: bool) -> None:
    app, found, patience = stateful_app(tmp_path / "app"), f"tcp://127.0.0.1:{free_port()}", cluster.PATIENCE_S
    expected = run_app(app, tiny(), tmp_path / "here", workers=2).summary["trace_sha256"]
    with ExitStack() as stack:
        [scheduler, worker] = start(stack, found)

        def restart() -> None:
            if not back:
                monkeypatch.setattr(cluster, "PATIENCE_S", 1)
            for process in (scheduler, worker):
                process.kill()
                process.wait()
            if back:
                start(stack, found)

        lose_task(12, worker, monkeypatch, restart)      # in the second round
        if back:
            run = run_app(app, tiny(), tmp_path / "there", cluster=found)
        else:
            with refused("needs", "--cluster"):
                run_app(app, tiny(), tmp_path / "there", cluster=found)
            monkeypatch.setattr(cluster, "PATIENCE_S", patience)
            start(stack, found)
            run = run_app(app, tiny(), tmp_path / "there", cluster=found, resume=True)
    assert run.summary["trace_sha256"] == expected


def test_no_cluster_at_the_address(tmp_path: Path, netsim: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE_S", 1)
    monkeypatch.chdir(tmp_path)
    code, _, said = netsim("flower", str(write_app(tmp_path / "app")), "--scenario", "tiny", "--cluster",
                           f"tcp://127.0.0.1:{free_port()}")
    assert code == 2
    assert "--cluster: needs" in said
    assert "Traceback" not in said


def test_a_cluster_is_used_instead_of_workers(tmp_path: Path, netsim: Any) -> None:
    code, _, said = netsim("flower", str(write_app(tmp_path / "app")), "--scenario", "tiny", "--cluster",
                           "tcp://nowhere:1", "--workers", "2", "--out", str(tmp_path / "run"))
    assert code == 2
    assert "--workers" in said


@pytest.mark.slow
def test_the_files_of_an_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = write_app(tmp_path / "app")
    for name in ("data/a.txt", ".git/b", "venv/lib/site-packages/c.py", "quickstart/__pycache__/d.pyc",
                 "results/one/run.json", "results/one/trace/e.parquet"):
        (app / name).parent.mkdir(parents=True, exist_ok=True)
        (app / name).write_text(name)
    files = AppFiles.of(read_app(app))
    folder = files.unpacked()
    assert {path.relative_to(folder.path).as_posix() for path in folder.path.rglob("*") if path.is_file()} == {
        "pyproject.toml", "data/a.txt",
        *(f"quickstart/{name}.py" for name in ("__init__", "client_app", "server_app", "task"))}
    assert files.sha256 == AppFiles.of(read_app(app)).sha256
    monkeypatch.setattr("netsim.flower.shipping.MOST_BYTES", 100)
    with refused("too-large", str(app)):
        AppFiles.of(read_app(app))
