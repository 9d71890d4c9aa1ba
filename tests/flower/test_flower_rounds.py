"""Flower apps that wait for all: what is played, what the strategy sees, and that the weights are Flower's own."""

from __future__ import annotations

import copy
import random
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from small_apps import CLIENT, PYPROJECT, SERVER, play, tiny, write_app

from netsim.base.rng import stream
from netsim.flower.app_folder import importable, load_component, read_app
from netsim.flower.seeding import seed_generators
from netsim.flower.version_check import identify
from netsim.trace.schema import SERVER as OF_SERVER

pytestmark = pytest.mark.slow      # apps in worker processes

IDEAL = ("cell.bandwidth=1e9 GHz", "population.node.budget=1kJ")
EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def reasons(seen: list[str]) -> list[str]:
    return sorted(reason.partition(":")[0] for reason in seen)


def test_a_round_takes_as_long_as_the_same_work_in_a_run_of_ours(tmp_path):
    run, seen = play(write_app(tmp_path))
    assert seen == [["arrived"] * 5] * 3
    # the table at the head of scenarios/tiny.toml: device 4 is done at 50.7526 ms, and all take 29.5019 mJ
    assert run.rounds["round_s"].to_list() == pytest.approx([0.0507526] * 3, abs=1e-7)
    assert run.rounds["energy_j"].to_list() == pytest.approx([0.0295019] * 3, abs=1e-7)
    assert run.jobs["bits"].unique().to_list() == [100_000.0]
    assert run.jobs["cycles"].unique().to_list() == [1e7]
    assert run.summary["rounds"] == 3


def test_the_replys_samples_are_what_a_device_computes(tmp_path):
    app = write_app(tmp_path, client_app=CLIENT.replace('"num-examples": 100', '"num-examples": 30'))
    assert play(app)[0].jobs["cycles"].unique().to_list() == [3e6]


def test_without_samples_in_the_reply_those_of_the_scenario_count(tmp_path):
    server = SERVER.replace("= Noting(", '= Noting(weighted_by_key="weight", ')
    client = CLIENT.replace('"num-examples": 100', '"weight": 1').replace('"num-examples": 50', '"weight": 1')
    app = write_app(tmp_path, server_app=server, client_app=client)
    assert play(app)[0].jobs["cycles"].unique().to_list() == [1e7]


def test_metrics_become_counters(tmp_path):
    run, _ = play(write_app(tmp_path))
    counters = run.events.filter(pl.col("kind") == "counter")
    loss = counters.filter((pl.col("name") == "train train_loss") & (pl.col("round") == 1))
    by_device = loss.filter(pl.col("device") >= 0)["value"]
    assert len(by_device) == 5
    assert loss.filter(pl.col("device") == OF_SERVER)["value"].to_list() == pytest.approx([by_device.mean()])
    assert run.rounds["accuracy"].to_list() == [0.5] * 3
    assert run.summary["accuracy"] == 0.5


# The weights are Flower's own.

def by_hand(folder: Path, seed: int = 0) -> dict[str, np.ndarray]:
    """The final model of the app's strategy, driven in this process by the plainest of grids."""
    from flwr.app import Context, Message, RecordDict
    from flwr.serverapp import Grid
    from flwr.serverapp.strategy import Strategy

    app = read_app(folder)
    with importable(app):
        server, client = load_component(app, "serverapp"), load_component(app, "clientapp")
        contexts = [Context(1, node, {"partition-id": node - 1, "num-partitions": 5}, RecordDict(), dict(app.config))
                    for node in range(1, 6)]
        had = [0] * 5

        class Plain(Grid):
            def get_node_ids(self):
                return range(1, 6)

            def send_and_receive(self, messages, *, timeout=None):
                return [self.answer(message, message.metadata.dst_node_id - 1) for message in messages]

            def answer(self, message: Message, device: int) -> Message:
                state = random.getstate(), np.random.get_state()      # noqa: NPY002
                seed_generators(stream(seed, "flower client", had[device], device))
                had[device] += 1
                reply = client(message=copy.deepcopy(message), context=contexts[device])
                random.setstate(state[0])
                np.random.set_state(state[1])                         # noqa: NPY002
                return reply

            set_run = create_message = push_messages = pull_messages = None
            run = None

        found = {}
        start = Strategy.start

        def note(self, *args, **options):
            result = start(self, *args, **options)
            found.update({name: array.numpy() for name, array in result.arrays.items()})
            return result

        identify(1)
        seed_generators(stream(seed, "flower server"))
        Strategy.start = note
        try:
            server(grid=Plain(), context=Context(1, 1, {}, RecordDict(), dict(app.config)))
        finally:
            Strategy.start = start
    return found


@pytest.mark.parametrize("app", ["quickstart", pytest.param("flower-digits", marks=pytest.mark.slow)])
def test_in_an_ideal_cell_the_final_weights_are_those_of_the_strategy_by_hand(tmp_path, app):
    folder = write_app(tmp_path / "app") if app == "quickstart" else EXAMPLES / app
    run = play_plain(folder, tmp_path / "run")
    expected = by_hand(folder)
    found = np.load(run / "model.npz")
    assert set(found) == set(expected)
    for name in expected:
        assert found[name].dtype == expected[name].dtype
        assert found[name].tobytes() == expected[name].tobytes()


def play_plain(folder: Path, out: Path) -> Path:
    from netsim.flower import run_app

    run_app(folder, tiny(*IDEAL), out, workers=2)
    return out


def test_two_runs_are_identical_with_any_number_of_workers_and_another_seed_is_another_run(tmp_path):
    app = write_app(tmp_path)
    hashes = [play(app, workers=workers)[0].summary["trace_sha256"] for workers in (1, 1, 3)]
    assert len(set(hashes)) == 1
    assert play(app, seed=1)[0].summary["trace_sha256"] not in hashes


def test_every_device_and_round_draws_its_own(tmp_path):
    run, _ = play(write_app(tmp_path))
    drawn = run.events.filter((pl.col("name") == "train drawn") & (pl.col("device") >= 0))["value"]
    assert drawn.n_unique() == len(drawn) == 15


def test_what_a_client_does_to_its_message_stays_with_it(tmp_path):
    spoiled = CLIENT.replace("    trained = fit(", '    msg.content["config"]["mark"] = 1\n    trained = fit(')
    spoiled = spoiled.replace('"drawn": random.random()', '"marked": int("mark" in msg.content["config"])')
    before = CLIENT.replace('"drawn": random.random()', '"marked": int("mark" in msg.content["config"])')
    spoiled = spoiled.replace("    weights = msg", '    assert "mark" not in msg.content["config"]\n    weights = msg')
    assert play(write_app(tmp_path / "a", client_app=spoiled), workers=1)[1] == [["arrived"] * 5] * 3
    assert play(write_app(tmp_path / "b", client_app=before))[1] == [["arrived"] * 5] * 3


def test_a_nodes_state_is_there_when_its_next_message_comes(tmp_path):
    counting = CLIENT.replace("    trained = fit(", """    from flwr.app import ConfigRecord
    count = context.state.get("count", ConfigRecord({"n": 0}))["n"] + 1
    context.state["count"] = ConfigRecord({"n": count})
    trained = fit(""").replace('"drawn": random.random()', '"count": count')
    run, _ = play(write_app(tmp_path, client_app=counting))
    counts = run.events.filter((pl.col("name") == "train count") & (pl.col("device") == 2))["value"].to_list()
    assert counts == [1.0, 2.0, 3.0]


# Who drops out, and why.

def test_who_is_late_is_told_so(tmp_path):
    run, seen = play(write_app(tmp_path), None, "timeout=0.03")
    # devices 0, 1 and 2 are done after 20.0, 26.4 and 29.8 ms; 3 and 4 after 41.3 and 50.8
    assert [reasons(each) for each in seen] == [["arrived"] * 3 + ["deadline"] * 2] * 3
    assert run.rounds["round_s"].to_list() == pytest.approx([0.03] * 3)
    assert run.summary["dropped"] == 6


def test_who_has_no_plan_is_told_what_it_had(tmp_path):
    run, seen = play(write_app(tmp_path), tiny("population.node.budget=4mJ"))
    assert reasons(seen[0]) == ["arrived"] * 4 + ["infeasible"]
    assert [reason for reason in seen[0] if reason != "arrived"] == [
        "infeasible: device 4 has no plan within its budget of 4 mJ"]
    assert run.jobs.filter(pl.col("outcome") == "infeasible")["device"].unique().to_list() == [4]


FADING = (
    "cell.fading={model='rayleigh', coherence='5 ms'}", "allocation.channel=mean", "population.node.battery=6.5mJ",
)


def test_whose_battery_runs_out_in_mid_job_is_told_so(tmp_path):
    run, seen = play(write_app(tmp_path), tiny(*FADING), "num-server-rounds=2")
    empty = [reason for each in seen for reason in each if reason.startswith("battery empty: device ")]
    assert len(empty) == run.jobs.filter(pl.col("outcome") == "battery empty").height > 0


def test_batteries_end_a_run_that_waits_for_more_nodes_than_they_leave(tmp_path):
    run, seen = play(write_app(tmp_path), tiny("population.node.battery=14mJ"), "num-server-rounds=50", "min-nodes=4")
    assert 2 <= run.summary["rounds"] < 50
    assert "waits for more nodes" in run.summary["ended"]
    assert "the scenario has 5 devices" in run.summary["ended"]
    assert (run.jobs.group_by("device").agg(pl.col("energy_j").sum())["energy_j"] <= 0.014 * (1 + 1e-9)).all()
    assert seen[0] == ["arrived"] * 5


def test_an_app_that_waits_for_all_nodes_waits_in_simulated_time_until_they_are_back(tmp_path):
    comes_and_goes = "population.node.availability={model='on-off', on='20 s', off='20 s'}"
    run, seen = play(write_app(tmp_path), tiny(comes_and_goes), "min-nodes=5")
    assert run.summary["ended"] is None
    assert len(seen) == run.summary["rounds"] == 3
    assert run.summary["simulated_s"] > 10.0         # the rounds themselves take 0.05 s
    assert run.critical_path().steps.height > 0


def test_the_scenarios_end_in_time_ends_the_app(tmp_path):
    run, _ = play(write_app(tmp_path), tiny("end.time=90ms"), "num-server-rounds=50")
    assert run.summary["rounds"] == 2
    assert "end.time" in run.summary["ended"]


def test_a_clientapp_that_fails_is_an_error_and_the_others_go_on(tmp_path, capfd):
    failing = CLIENT.replace("    weights = msg", '    if context.node_config["partition-id"] == 3:\n'
                             '        raise RuntimeError("no data")\n    weights = msg', 1)
    _, seen = play(write_app(tmp_path, client_app=failing), None, "num-server-rounds=1")
    assert reasons(seen[0]) == ["RuntimeError"] + ["arrived"] * 4
    assert "failed on device 3: RuntimeError: no data" in capfd.readouterr().err


def test_a_clientapp_that_exits_ends_nothing_but_itself(tmp_path):
    leaving = CLIENT.replace("    weights = msg", "    raise SystemExit(1)\n    weights = msg", 1)
    _, seen = play(write_app(tmp_path, client_app=leaving), None, "num-server-rounds=1")
    assert reasons(seen[0]) == ["SystemExit"] * 5


def test_a_changed_run_config_is_refused_as_flowers_engine_does(tmp_path):
    changing = CLIENT.replace("    trained = fit", '    context.run_config["optimiser.rate"] = 0.1\n    trained = fit')
    _, seen = play(write_app(tmp_path, client_app=changing), None, "num-server-rounds=1")
    assert seen == [["the app changed its run_config, which Flower does not allow"] * 5]


# What else an app may do.

def test_evaluation_costs_nothing_unless_the_scenario_charges_it(tmp_path):
    app = write_app(tmp_path)
    free, charged = (play(app, tiny(*changes))[0] for changes in ((), ("flower.evaluation=charged",)))
    assert charged.jobs.height == 2 * free.jobs.height
    extra = charged.jobs.filter(pl.col("bits") < 1000)
    assert extra["bits"].unique().to_list() == [192.0]                # three numbers
    assert extra["cycles"].unique().to_list() == [50 * 10_000.0]      # one pass over 50 samples
    assert charged.summary["simulated_s"] > free.summary["simulated_s"]
    assert charged.rounds.height == free.rounds.height == 3


def test_the_models_way_down_takes_as_long_as_its_arrays(tmp_path):
    run, _ = play(write_app(tmp_path), tiny("cell.downlink={power='1 W'}", "population.node.budget=10mJ"))
    # one broadcast of 3,119 floats and the number of the round over 5 MHz, as fast as for the farthest: its gain is
    # 4e-10, so J = 40 MHz at 1 W
    assert run.rounds["download_s"].to_list() == pytest.approx([(3119 * 32 + 64) / (5e6 * np.log2(1 + 40 / 5))] * 3)


def test_a_server_that_sleeps_lets_simulated_time_pass(tmp_path):
    sleeping = SERVER.replace("        replies = list(replies)\n",
                              "        replies = list(replies)\n        import time\n        time.sleep(2.0)\n"
                              "        seen.append([str(time.time())])\n")
    run, seen = play(write_app(tmp_path, server_app=sleeping), None, "num-server-rounds=2")
    assert run.summary["simulated_s"] == pytest.approx(2 * 2.0507526, abs=1e-6)
    assert [float(seen[0][0]), float(seen[2][0])] == pytest.approx([2.0507526, 4.1015052], abs=1e-6)


def test_a_sleep_that_was_imported_by_name_is_simulated_too(tmp_path):
    sleeping = SERVER.replace("import json\n", "import json\nfrom time import sleep\n").replace(
        "    config = context", "    sleep(1000)\n    config = context")
    run, _ = play(write_app(tmp_path, server_app=sleeping), None, "num-server-rounds=1")
    assert run.summary["simulated_s"] == pytest.approx(1000.0507526, abs=1e-6)


def test_torch_draws_the_same_in_any_number_of_workers_however_late_it_is_imported(tmp_path):
    drawing = CLIENT.replace("    trained = fit", "    import torch\n    trained = fit").replace(
        "random.random()", "float(torch.rand(1))")
    app = write_app(tmp_path, client_app=drawing, pyproject=PYPROJECT.replace('"numpy"]', '"numpy", "torch>=2"]'))
    one, three = (play(app, workers=workers)[0] for workers in (1, 3))
    assert one.summary["trace_sha256"] == three.summary["trace_sha256"]
    drawn = one.events.filter((pl.col("name") == "train drawn") & (pl.col("device") >= 0))["value"]
    assert drawn.n_unique() == len(drawn) == 15


OLD_SERVER = """
import json

from flwr.common import Context, ndarrays_to_parameters
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg

from quickstart.task import initial

seen = []


class Noting(FedAvg):
    def __init__(self, log, **options):
        super().__init__(**options)
        self.log = log

    def aggregate_fit(self, server_round, results, failures):
        seen.append(["arrived"] * len(results) + [str(failure) for failure in failures])
        with open(self.log, "w") as file:
            json.dump(seen, file)
        return super().aggregate_fit(server_round, results, failures)


def server_fn(context: Context):
    config = context.run_config
    strategy = Noting(config["log"], min_available_clients=config["min-nodes"],
                      initial_parameters=ndarrays_to_parameters([initial()]),
                      evaluate_fn=lambda round, arrays, config: (float(round), {"accuracy": round / 10}))
    return ServerAppComponents(strategy=strategy, config=ServerConfig(
        num_rounds=config["num-server-rounds"], round_timeout=config["timeout"]))


app = ServerApp(server_fn=server_fn)
"""
OLD_CLIENT = """
from flwr.client import ClientApp, NumPyClient
from flwr.common import Context

from quickstart.task import fit


class Client(NumPyClient):
    def __init__(self, partition, rate):
        self.partition, self.rate = partition, rate

    def fit(self, parameters, config):
        return [fit(parameters[0], self.partition, self.rate)], 100, {"drawn": 1.0}

    def evaluate(self, parameters, config):
        return float(abs(parameters[0]).mean()), 100, {"accuracy": 0.25}


def client_fn(context: Context):
    return Client(context.node_config["partition-id"], context.run_config["optimiser.rate"]).to_client()


app = ClientApp(client_fn=client_fn)
"""


def test_servers_of_the_old_kind_play_the_same_rounds(tmp_path):
    app = write_app(tmp_path, server_app=OLD_SERVER, client_app=OLD_CLIENT)
    run, seen = play(app)
    assert seen == [["arrived"] * 5] * 3
    # besides 3,119 floats: num_examples, a metric, the code and the text "Success" of the status, so 100,056 bits; for
    # device 4 an upload of 43.0918 ms and 4.3092 mJ, so 1.6908 mJ and 1.30032 GHz for the computing of 7.6904 ms
    assert run.jobs["bits"].unique().to_list() == [3119 * 32 + 3 * 64 + 7 * 8]
    assert run.rounds["round_s"].to_list() == pytest.approx([0.0507822] * 3, abs=1e-7)
    assert run.rounds["loss"].to_list() == pytest.approx([1.0, 2.0, 3.0], rel=10)
    assert play(app, workers=1)[0].summary["trace_sha256"] == run.summary["trace_sha256"]


def test_servers_of_the_old_kind_hear_why_somebody_dropped_out(tmp_path):
    app = write_app(tmp_path, server_app=OLD_SERVER, client_app=OLD_CLIENT)
    _, seen = play(app, None, "timeout=0.03", "num-server-rounds=1")
    assert seen[0][:3] == ["arrived"] * 3
    assert len(seen[0]) == 5
    assert all("deadline: device" in reason for reason in seen[0][3:])
