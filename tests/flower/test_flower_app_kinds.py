"""Kinds of Flower apps: order of messages, failing ClientApps, children of workers, payloads, queries."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from refused import refused
from small_apps import CLIENT, PYPROJECT, SERVER, play, tiny, write_app
from test_flower_as_they_come import ALONE, serve
from test_flower_command import command
from test_flower_rounds import OLD_CLIENT, OLD_SERVER

from netsim.base.errors import WorkerError
from netsim.flower import run_app

pytestmark = pytest.mark.slow      # most of them start worker processes of their own

COUNTING = """
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(msg: Message, context: Context) -> Message:
    done = context.state.get("done", ConfigRecord({"n": 0}))["n"] + 1
    context.state["done"] = ConfigRecord({"n": done})
    return Message(RecordDict(), reply_to=msg)


@app.query()
def query(msg: Message, context: Context) -> Message:
    done = context.state.get("done", ConfigRecord({"n": 0}))["n"]
    return Message(RecordDict({"metrics": MetricRecord({"done": done})}), reply_to=msg)
"""
ASK = """
def ask():
    queries = [Message(RecordDict(), dst_node_id=node, message_type="query") for node in grid.get_node_ids()]
    return [reply.content["metrics"]["done"] for reply in grid.send_and_receive(queries)]
"""


# Order of the messages to a device.

def test_a_query_waits_for_the_training_that_was_sent_before(tmp_path):
    run, said = serve(tmp_path, ASK + """
for value in range(3):
    grid.push_messages([message(node, value) for node in grid.get_node_ids()])
    said.append(ask())
""", client_app=COUNTING)
    assert said == [[1] * 5, [2] * 5, [3] * 5]
    assert run.summary["messages"]["train"] == {"sent": 15, "answered": 15}
    assert run.jobs["outcome"].to_list() == ["arrived"] * 15
    assert run.summary["rounds"] == 3
    assert run.summary["simulated_s"] == pytest.approx(run.rounds["round_s"].sum())


def test_queries_and_training_pushed_together_are_handled_in_order(tmp_path):
    _, said = serve(tmp_path, """
node = list(grid.get_node_ids())[2]
query = lambda: Message(RecordDict(), dst_node_id=node, message_type="query")
ids = list(grid.push_messages([query(), message(node), query(), query(), message(node), query()]))
while ids:
    for reply in grid.pull_messages(ids):
        ids.remove(reply.metadata.reply_to_message_id)
        if "metrics" in reply.content:
            said.append([reply.content["metrics"]["done"], round(time.time(), 6)])
""", client_app=COUNTING)
    assert [done for done, _ in said] == [0, 1, 1, 2]
    times = [t for _, t in said]
    assert times[0] == 0.0 < times[1] == times[2] < times[3]


def test_training_that_an_app_never_collects_is_simulated_to_its_end(tmp_path):
    run, _ = serve(tmp_path, "grid.push_messages([message(node) for node in grid.get_node_ids()])",
                   client_app=COUNTING)
    assert run.jobs["outcome"].to_list() == ["arrived"] * 5
    assert run.summary["simulated_s"] > 0.0 < run.summary["energy_j"]


def test_messages_that_have_not_started_when_the_app_ends_are_recorded(tmp_path):
    run, _ = serve(tmp_path, """
nodes = list(grid.get_node_ids())
list(grid.send_and_receive([message(node) for node in nodes]))
grid.push_messages([message(nodes[0]), message(nodes[0])])
""")
    assert run.jobs.filter(pl.col("outcome") == "run over")["device"].to_list() == [0, 0]
    assert run.summary["rounds"] == 1


# ClientApps that fail.

def raising(condition: str) -> str:
    return CLIENT.replace("    weights = msg", f'    if {condition}:\n        raise RuntimeError("no data")\n'
                          "    weights = msg", 1)


def test_failed_clientapps_are_jobs_with_an_outcome_and_a_reason(tmp_path):
    run, seen = play(write_app(tmp_path, client_app=raising('context.node_config["partition-id"] == 3')))
    assert [len(each) for each in seen] == [5] * 3
    failed = run.jobs.filter(pl.col("outcome") != "arrived")
    assert failed["device"].to_list() == [3, 3, 3]
    assert failed["outcome"].unique().to_list() == ["app failed: RuntimeError: no data (quickstart/client_app.py, "
                                                    "line 15)"]
    assert run.summary["dropped"] == 3
    assert run.rounds["dropped"].to_list() == [1, 1, 1]
    assert run.summary["messages"]["train"] == {"sent": 15, "answered": 12}
    assert list(run.summary["failures"].values()) == [3]
    devices = run.breakdown().devices
    assert devices.filter(pl.col("device") == 3)["dropped"].to_list() == [3]


def test_a_run_in_which_no_client_trains_ends_with_exit_code_1(tmp_path):
    app = write_app(tmp_path / "app", client_app=raising("True"))
    code, out, _ = command(str(app), "--scenario", "tiny", "--out", str(tmp_path / "run"))
    assert code == 1
    assert "dropped out" in out
    assert "15 times" in out
    assert "no client has trained" in out
    assert "RuntimeError: no data" in out


# Workers.

CHILD = """
    import subprocess, sys
    from multiprocessing import Process
    child = Process(target=print, args=("a child",))
    child.start()
    child.join()
    assert child.exitcode == 0
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(__file__ + ".left", "a") as file:
        file.write(f"{left.pid}\\n")
    trained = fit("""


def test_workers_may_have_children_and_none_outlives_the_run(tmp_path):
    app = write_app(tmp_path, client_app=CLIENT.replace("\n    trained = fit(", CHILD))
    _, seen = play(app, None, "num-server-rounds=1")
    assert seen == [["arrived"] * 5]
    left = [int(line) for line in (app / "quickstart" / "client_app.py.left").read_text().split()]
    assert len(left) == 5
    wait_until_gone(left)


def wait_until_gone(processes: list[int]) -> None:
    until = time.monotonic() + 120      # on a loaded machine
    while any(alive(pid) for pid in processes):
        assert time.monotonic() < until, "a child of a worker is still running"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
def test_a_clientapp_that_uses_jax(tmp_path):
    pytest.importorskip("jax")
    client = CLIENT.replace("import random\n", "import random\n\nimport jax\nimport jax.numpy as jnp\n").replace(
        "    trained = fit(", "    jax.jit(lambda x: jnp.dot(x, x))(jnp.ones(100)).block_until_ready()\n"
        "    trained = fit(")
    server = "import jax.numpy as jnp\n\nready = jnp.ones(3).sum()\n"      # the server uses it first
    app = write_app(tmp_path / "app", client_app=client, server_app=server + SERVER)
    # a process of its own: JAX has threads, which the next test could not fork
    done = subprocess.run(
        [sys.executable, "-m", "netsim", "flower", str(app), "-s", "tiny", "--out", str(tmp_path / "run"), "--json",
         "--run-config", "num-server-rounds=1"], capture_output=True, text=True, timeout=600, check=True)
    assert json.loads(done.stdout)["messages"]["train"] == {"sent": 5, "answered": 5}


# Payloads.

CONFIGS = """
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(msg: Message, context: Context) -> Message:
    reply = {"model": b"x" * 12_000, "name": "trees", "auc": 0.5, "sizes": [1, 2, 3]}
    return Message(RecordDict({"model": ConfigRecord(reply)}), reply_to=msg)
"""


def test_the_bytes_of_every_record_are_uploaded(tmp_path):
    run, _ = serve(tmp_path, """
replies = list(grid.send_and_receive([message(node) for node in grid.get_node_ids()]))
said.append([reply.has_error() for reply in replies])
""", client_app=CONFIGS)
    assert run.jobs["bits"].to_list() == [8.0 * (12_000 + 5 + 8 + 24)] * 5
    assert run.jobs["outcome"].to_list() == ["arrived"] * 5


# Apps that only query.

HISTOGRAMS = """
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def query(msg: Message, context: Context) -> Message:
    metrics = MetricRecord({"histogram": [1, 2, 3, 4], "num-examples": 50})
    return Message(RecordDict({"query_results": metrics}), reply_to=msg)
"""
THRICE = """
for _ in range(3):
    queries = [Message(RecordDict(), dst_node_id=node, message_type="query") for node in grid.get_node_ids()]
    said.append(len([reply for reply in grid.send_and_receive(queries) if not reply.has_error()]))
"""


@pytest.mark.slow
def test_an_app_that_only_queries(tmp_path):
    free, said = serve(tmp_path / "free", THRICE, client_app=HISTOGRAMS)
    charged, again = serve(tmp_path / "charged", THRICE, "flower.queries=charged", client_app=HISTOGRAMS)
    assert said == again == [5, 5, 5]
    assert free.summary["rounds"] == charged.summary["rounds"] == 3
    assert (free.summary["simulated_s"], free.jobs.height) == (0.0, 0)
    assert charged.jobs["bits"].unique().to_list() == [5 * 64.0]
    assert charged.jobs["cycles"].unique().to_list() == [50 * 10_000.0]      # one pass
    assert charged.rounds["arrived"].to_list() == [5, 5, 5]
    assert free.summary["messages"] == {"query": {"sent": 15, "answered": 15}}
    assert free.events.filter(pl.col("name") == "query histogram[3]")["value"].to_list() == [4.0] * 18


def test_an_app_whose_queries_all_fail_ends_with_exit_code_1(tmp_path):
    app = write_app(tmp_path / "app", client_app=HISTOGRAMS.replace("    metrics =", "    1 / 0\n    metrics ="))
    (app / "quickstart" / "server_app.py").write_text(
        ALONE.replace("BODY", "\n        ".join(THRICE.strip().splitlines())))
    code, out, _ = command(str(app), "--scenario", "tiny", "--out", str(tmp_path / "run"), "--json",
                           "--run-config", f'log="{tmp_path / "log.json"}"')
    assert code == 1
    assert json.loads(out.splitlines()[-1])["rounds"] == 3


# Strategies and servers of other kinds.

OWN_LOOP = SERVER.replace("    def aggregate_train", """
    def start(self, grid, initial_arrays, num_rounds=3, timeout=3600, evaluate_fn=None):
        from flwr.serverapp.strategy import Result
        result, result.arrays = Result(), initial_arrays
        for server_round in range(1, num_rounds + 1):
            messages = self.configure_train(server_round, result.arrays, ConfigRecord(), grid)
            result.arrays, _ = self.aggregate_train(server_round, grid.send_and_receive(messages, timeout=timeout))
            evaluate_fn(server_round, result.arrays)
        return result

    def aggregate_train""").replace("ArrayRecord, Context", "ArrayRecord, ConfigRecord, Context, MetricRecord").replace(
    'timeout=config["timeout"])', 'timeout=config["timeout"],\n                       '
    'evaluate_fn=lambda number, arrays: MetricRecord({"accuracy": number / 10}))')


def test_a_strategy_with_its_own_start_gives_model_metrics_and_progress(tmp_path):
    seen = []
    run = run_app(write_app(tmp_path / "app", server_app=OWN_LOOP), tiny(), tmp_path / "run", workers=2,
                  progress=lambda at: seen.append((at.round, at.rounds)))
    assert run.rounds["accuracy"].to_list() == pytest.approx([0.1, 0.2, 0.3])
    assert run.summary["accuracy_of"] == "server"
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert np.load(tmp_path / "run" / "model.npz")["0"].shape == (3119,)


def test_a_legacy_server_gives_its_model_and_progress(tmp_path):
    seen = []
    app = write_app(tmp_path / "app", server_app=OLD_SERVER, client_app=OLD_CLIENT)
    run = run_app(app, tiny(), tmp_path / "run", workers=2, run_config=[f'log="{tmp_path / "log"}"'],
                  progress=lambda at: seen.append((at.round, at.rounds)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert run.summary["accuracy"] == pytest.approx(0.3)
    [array] = np.load(tmp_path / "run" / "model.npz").values()
    assert array.shape == (3119,)


def test_time_is_simulated_in_the_app_but_not_in_other_libraries(tmp_path):
    library = tmp_path / "a_library"
    library.mkdir()
    (library / "clock_of_a_library.py").write_text("import time\n\n\ndef now():\n    return time.time()\n")
    _, said = serve(tmp_path / "app", f"""
import sys
sys.path.append({str(library)!r})
from clock_of_a_library import now
list(grid.send_and_receive([message(node) for node in grid.get_node_ids()]))
said.extend([time.time(), now()])
""")
    assert said[0] == pytest.approx(0.0507526, abs=1e-7)
    assert abs(said[1] - time.time()) < 600


# The command line of Flower.

def told(*words: str) -> dict:
    code, out, error = command(*words, "--json", "--workers", "1")
    assert (code, error) == (0, "")
    return json.loads(out.splitlines()[-1])


def test_the_default_scenario_has_as_many_devices_as_the_app(tmp_path):
    app = write_app(tmp_path / "app", pyproject=PYPROJECT + """
[tool.flwr.federations]
default = "local-simulation"

[tool.flwr.federations.local-simulation]
options.num-supernodes = 4
""")
    one = ("--run-config", "num-server-rounds=1")
    assert told(str(app), "--out", str(tmp_path / "app-says"), *one)["messages"]["train"]["sent"] == 4
    assert told(str(app), "--out", str(tmp_path / "user-says"), "--federation-config", "num-supernodes=3",
                *one)["messages"]["train"]["sent"] == 3
    by_scenario = told(str(app), "-s", "tiny", "--out", str(tmp_path / "scenario-says"), *one)
    assert by_scenario["messages"]["train"]["sent"] == 5
    summary = told(str(write_app(tmp_path / "other")), "--out", str(tmp_path / "ten"), *one)
    assert summary["messages"]["train"] == {"sent": 10, "answered": 10}
    assert "of CPU per sample measured here" in summary["compute"]


def test_the_cohort_is_not_checked_where_the_app_selects(tmp_path):
    summary = told(str(write_app(tmp_path / "app")), "-s", "quickstart", "--set", "population.phone.count=3",
                   "--set", "population.phone.budget=1J", "-c", "num-server-rounds=1", "--out", str(tmp_path / "run"))
    assert summary["messages"]["train"]["sent"] == 3


def test_run_config_in_one_text_or_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app, file = write_app(tmp_path / "app"), tmp_path / "config.toml"
    file.write_text("num-server-rounds = 1\n[optimiser]\nrate = 0.25\n")
    text = told(str(app), "-s", "tiny", "-c", "num-server-rounds=2 min-nodes=3 log='a b'", "--out", str(tmp_path / "a"))
    assert text["rounds"] == 2
    assert (tmp_path / "a b").exists()
    assert told(str(app), "-s", "tiny", "-c", str(file), "--out", str(tmp_path / "b"))["rounds"] == 1


@pytest.mark.parametrize(("words", "said"), [
    (("-s", "fedbuff"), "server: has no effect"), (("--federation-config", "workers=3"), "num-supernodes=N"),
    (("-s", "mixed-fleet", "--federation-config", "num-supernodes=3"), "one [[population]] table")])
def test_settings_that_do_not_fit_are_refused(tmp_path, words, said):
    code, _, error = command(str(write_app(tmp_path / "app")), *words, "--out", str(tmp_path / "run"))
    assert code == 2
    assert said in error


def test_a_baseline_of_the_poetry_generation_is_refused_in_one_sentence(tmp_path):
    app = write_app(tmp_path, pyproject='[tool.poetry]\nname = "fedold"\n')
    code, _, error = command(str(app), "-s", "tiny")
    assert code == 2
    assert "found a baseline of the Poetry and hydra generation" in error
    assert "\n" not in error


def test_a_reason_for_most_failed_jobs_comes_with_a_remedy(tmp_path):
    code, out, _ = command(str(write_app(tmp_path / "app")), "-s", "tiny", "--set", "population.node.budget=1.8mJ",
                           "--out", str(tmp_path / "run"))
    assert code == 0
    assert "most jobs failed" in out
    assert "population.NAME.budget" in out


@pytest.mark.slow
def test_flowers_log_is_shown_if_the_app_reports_only_through_it(tmp_path, capfd, monkeypatch):
    serve(tmp_path / "a", "from flwr.common.logger import log\nlog(20, 'histogram: %s', [1, 2])\n" + THRICE.strip(),
          client_app=HISTOGRAMS)
    assert "histogram: [1, 2]" in capfd.readouterr().err
    play(write_app(tmp_path / "b"))
    assert "ROUND" not in capfd.readouterr().err
    shown = io.StringIO()
    monkeypatch.setattr(logging.getLogger("flwr").handlers[0], "stream", shown)
    run_app(write_app(tmp_path / "c"), tiny(), workers=1, verbose=True)
    assert "ROUND 3/3" in shown.getvalue()


# Apps that misbehave.

@pytest.mark.parametrize("part", ["client_app", "server_app"])
def test_a_deadlock_ends_with_one_sentence(tmp_path, monkeypatch, part):
    from netsim.flower import watchdog

    monkeypatch.setattr(watchdog, "STALLED_S", 1.0)
    lock = "    import threading\n    lock = threading.Lock()\n    lock.acquire()\n    lock.acquire()\n"
    text = {"client_app": CLIENT.replace("    weights = msg", lock + "    weights = msg", 1),
            "server_app": SERVER.replace("    config = context", lock + "    config = context", 1)}[part]
    with refused("your-code", "the app of") as error:
        run_app(write_app(tmp_path, **{part: text}), tiny(), workers=2)
    assert "no progress in 1 s" in str(error.value)


def test_a_worker_that_the_app_ends_is_told(tmp_path):
    leaving = CLIENT.replace("    weights = msg", "    import os\n    os._exit(3)\n    weights = msg", 1)
    with pytest.raises(WorkerError, match="ended unexpectedly"):
        run_app(write_app(tmp_path, client_app=leaving), tiny(), workers=2)


@pytest.mark.slow
def test_an_app_that_starts_threads_at_its_import_gets_spawned_workers(tmp_path):
    waiting = "import threading\n\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    client = CLIENT.replace("    weights = msg", """    import threading
    assert threading.active_count() >= 3       # of the worker, of its parent's end, of the app
    weights = msg""", 1)
    assert play(write_app(tmp_path, client_app=waiting + client), None, "num-server-rounds=1")[1] == [["arrived"] * 5]


def test_output_below_python_stays_off_standard_output(tmp_path, capfd):
    shout = '    import os\n    os.system("echo from a child")\n'
    loud = CLIENT.replace("    weights = msg", f"{shout}    weights = msg", 1)
    run_app(write_app(tmp_path, client_app=loud, server_app="import os\nos.system('echo from the server')\n" + SERVER),
            tiny(), workers=1)
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "from the server" in printed.err
    assert "from a child" in printed.err
