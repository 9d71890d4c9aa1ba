"""Flower servers that do not wait: push_messages and pull_messages in simulated time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from small_apps import CLIENT, tiny, write_app

from netsim.base.errors import InputError
from netsim.flower import run_app
from netsim.run import Run

pytestmark = pytest.mark.slow      # apps in worker processes

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "flower-fedbuff"
ALONE = """
import json
import time

import numpy as np
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

app = ServerApp()
said = []


def message(node, value=0.0):
    return Message(RecordDict({"arrays": ArrayRecord([np.full(3119, value, np.float32)])}), dst_node_id=node,
                   message_type="train")


@app.main()
def main(grid: Grid, context: Context) -> None:
    try:
        BODY
    finally:
        with open(context.run_config["log"], "w") as file:
            json.dump(said, file)
"""


def serve(tmp_path: Path, body: str, *changes: str, **files: str) -> tuple[Run, list[object]]:
    """The run of a server with these lines, and what it said."""
    app = write_app(tmp_path, server_app=ALONE.replace("BODY", "\n        ".join(body.strip().splitlines())), **files)
    run = run_app(app, tiny(*changes), workers=2, run_config=[f'log="{app / "log.json"}"'])
    return run, json.loads((app / "log.json").read_text())


def test_replies_come_one_by_one_in_the_order_of_their_arrival(tmp_path):
    run, said = serve(tmp_path, """
nodes = list(grid.get_node_ids())
pending = list(grid.push_messages([message(node) for node in nodes]))
while pending:
    for reply in grid.pull_messages(pending):
        pending.remove(reply.metadata.reply_to_message_id)
        said.append([nodes.index(reply.metadata.src_node_id), time.time()])
""")
    # with a fifth of the band each, as in the table at the head of scenarios/tiny.toml
    assert [device for device, _ in said] == [0, 1, 2, 3, 4]
    assert [t for _, t in said] == pytest.approx([0.0200190, 0.0263562, 0.0297699, 0.0413130, 0.0507526], abs=1e-7)
    assert run.summary["rounds"] == 1


def test_messages_that_are_pushed_at_one_instant_share_the_band_alike(tmp_path):
    together = """
nodes = list(grid.get_node_ids())
ids = list(grid.push_messages([message(node) for node in nodes]))
while ids:
    ids = [i for i in ids if i not in [r.metadata.reply_to_message_id for r in grid.pull_messages(ids)]]
"""
    one_by_one = together.replace("list(grid.push_messages([message(node) for node in nodes]))",
                                  "[i for node in nodes for i in grid.push_messages([message(node)])]")
    runs = [serve(tmp_path / str(k), body)[0] for k, body in enumerate((together, one_by_one))]
    assert runs[0].summary["trace_sha256"] == runs[1].summary["trace_sha256"]


def test_a_busy_device_does_one_thing_after_the_other(tmp_path):
    run, _ = serve(tmp_path, """
node = list(grid.get_node_ids())[0]
ids = list(grid.push_messages([message(node), message(node)]))
while ids:
    ids = [i for i in ids if i not in [r.metadata.reply_to_message_id for r in grid.pull_messages(ids)]]
""")
    first, second = run.jobs.sort("t0").iter_rows(named=True)
    assert second["t0"] == first["t1"] > 0.0


def test_a_version_is_a_model_made_of_what_arrived(tmp_path):
    run, _ = serve(tmp_path, """
nodes = list(grid.get_node_ids())
ids = list(grid.push_messages([message(node) for node in nodes]))
first = list(grid.pull_messages(ids))[0]
[again] = grid.push_messages([message(first.metadata.src_node_id, 1.0)])
ids = [i for i in ids if i != first.metadata.reply_to_message_id] + [again]
while ids:
    ids = [i for i in ids if i not in [r.metadata.reply_to_message_id for r in grid.pull_messages(ids)]]
""")
    assert run.summary["rounds"] == 2
    jobs = run.jobs.sort("job")
    assert jobs["version"].to_list() == [0, 0, 0, 0, 0, 1]
    assert jobs["staleness"].to_list() == [0, 1, 1, 1, 1, 0]
    assert run.rounds["t1"].to_list()[0] == pytest.approx(0.0200190, abs=1e-7)


def test_a_round_that_waits_for_all_and_then_some_that_do_not(tmp_path):
    run, _ = serve(tmp_path, """
nodes = list(grid.get_node_ids())
list(grid.send_and_receive([message(node) for node in nodes]))
time.sleep(1.0)
ids = list(grid.push_messages([message(node, 1.0) for node in nodes]))
while ids:
    ids = [i for i in ids if i not in [r.metadata.reply_to_message_id for r in grid.pull_messages(ids)]]
""")
    assert run.rounds["round_s"].to_list() == pytest.approx([0.0507526, 1.0507526], abs=1e-6)
    assert run.rounds["arrived"].to_list() == [5, 5]


def test_sleeping_lets_those_at_work_go_on(tmp_path):
    run, said = serve(tmp_path, """
ids = list(grid.push_messages([message(node) for node in grid.get_node_ids()]))
time.sleep(0.03)
said.append(len(list(grid.pull_messages(ids))))
said.append(time.time())
""")
    assert said == [3, pytest.approx(0.03)]
    assert run.jobs["outcome"].value_counts().sort("outcome").rows() == [("arrived", 3), ("run over", 2)]


def test_errors_come_back_with_their_reasons(tmp_path):
    _, said = serve(tmp_path, """
nodes = list(grid.get_node_ids())
ids = list(grid.push_messages([message(node) for node in nodes + [7]]))
while ids:
    for reply in grid.pull_messages(ids):
        ids.remove(reply.metadata.reply_to_message_id)
        said.append(reply.error.reason if reply.has_error() else "arrived")
""", "population.node.budget=4mJ", "rounds.deadline=45ms")
    assert sorted(reason.partition(":")[0] for reason in said) == ["arrived"] * 3 + ["infeasible"] * 2 + [
        "unknown node 7"]
    assert any("within its budget of 4 mJ, the deadline of 45 ms" in reason for reason in said)


def test_send_and_receive_while_others_are_at_work(tmp_path):
    _, said = serve(tmp_path, """
nodes = list(grid.get_node_ids())
[early] = grid.push_messages([message(nodes[0])])
replies = list(grid.send_and_receive([message(nodes[1]), message(nodes[2])]))
said.append([reply.has_error() for reply in replies])
replies = list(grid.send_and_receive([message(nodes[4]), message(nodes[4])], timeout=0.03))
said.append([reply.error.reason.partition(":")[0] for reply in replies if reply.has_error()])
said.append(len(list(grid.pull_messages([early]))))
""")
    assert said == [[False, False], ["deadline"], 1]


def test_pulling_what_nobody_works_on_ends_the_run(tmp_path):
    run, _ = serve(tmp_path, """
ids = list(grid.push_messages([message(node) for node in grid.get_node_ids()]))
while True:
    list(grid.pull_messages(ids))
""")
    assert "pulls replies to messages without a running job" in run.summary["ended"]


def test_messages_from_other_threads_are_refused(tmp_path):
    with pytest.raises(InputError) as error:
        serve(tmp_path, """
from threading import Thread
failed = []
def send():
    try:
        grid.push_messages([message(list(grid.get_node_ids())[0])])
    except BaseException as error:
        failed.append(error)
thread = Thread(target=send)
thread.start()
thread.join()
raise failed[0]
""")
    assert (error.value.code, error.value.key) == ("unsupported", "the app")


@pytest.fixture(scope="module")
def fedbuff(tmp_path_factory) -> list[Path]:
    folders = [tmp_path_factory.mktemp("fedbuff") / name for name in ("one", "three")]
    for folder, workers in zip(folders, (1, 3), strict=True):
        run_app(EXAMPLE, tiny("population.node.battery=30mJ"), folder, workers=workers, run_config=[
            "concurrency=3", "num-updates=6", "buffer=2", f'final-model="{folder}.npy"'])
    return folders


def test_fedbuff_learns_and_its_updates_are_stale(fedbuff):
    run = Run(fedbuff[0])
    assert run.summary["rounds"] == 6
    assert run.jobs.filter(pl.col("outcome") == "arrived")["staleness"].max() > 0
    assert not run.in_rounds
    assert np.abs(np.load(f"{fedbuff[0]}.npy")).max() > 0.1


def test_fedbuff_is_the_same_with_any_number_of_workers(fedbuff):
    one, three = (Run(folder).summary for folder in fedbuff)
    assert one["trace_sha256"] == three["trace_sha256"]
    assert Path(f"{fedbuff[0]}.npy").read_bytes() == Path(f"{fedbuff[1]}.npy").read_bytes()


def test_a_reply_without_arrays_uploads_its_metrics(tmp_path):
    run, _ = serve(tmp_path, """
list(grid.send_and_receive([message(node) for node in grid.get_node_ids()]))
""", client_app=CLIENT.replace('"arrays": ArrayRecord([trained]), ', ""))
    assert run.jobs["bits"].to_list() == [3 * 64.0] * 5
