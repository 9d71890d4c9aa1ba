"""The Flower client mod of examples/flower-logging writes logs that `netsim calibrate` reads."""

import csv
import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'netsim[flower]'")
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from netsim import calibrate
from netsim.flower.version_check import identify

FILE = Path(__file__).parents[2] / "examples" / "flower-logging" / "training_log.py"


@pytest.fixture
def training_log():
    spec = importlib.util.spec_from_file_location("training_log", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    identify(7)
    return module.training_log


def app_with(mod, work):
    app = ClientApp(mods=[mod])

    @app.train()
    def train(message, context):
        work(message)
        metrics = MetricRecord({"num-examples": 30})
        return Message(RecordDict({"arrays": message.content["arrays"], "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        return Message(RecordDict({"metrics": MetricRecord({"loss": 1.0})}), reply_to=message)

    return app


def send(app, number, kind="train"):
    content = RecordDict({"arrays": ArrayRecord([np.zeros(1000, np.float32)]),
                          "config": ConfigRecord({"server-round": number})})
    context = Context(1, 7, {"partition-id": 3}, RecordDict(), {"batch-size": 8, "local-epochs": 2})
    return app(Message(content, dst_node_id=7, message_type=kind), context)


def test_a_row_for_each_training(training_log, tmp_path):
    log = tmp_path / "log.csv"
    app = app_with(training_log(str(log)), lambda message: sum(range(20_000)))
    for number in range(1, 7):
        assert send(app, number).content["metrics"]["num-examples"] == 30
    send(app, 7, "evaluate")
    rows = list(csv.DictReader(log.open()))
    assert [(row["device"], row["round"], row["samples"], row["batch"]) for row in rows] == [
        ("3", str(number), "60", "8") for number in range(1, 7)]
    assert all(float(row["compute_s"]) > 0 and int(row["bits"]) >= 32_000 for row in rows)
    assert calibrate(log).as_json()["devices"]["3"]["seconds_per_sample"]["value"] > 0


def test_a_training_that_raises_is_a_failed_job(training_log, tmp_path):
    log = tmp_path / "log.csv"

    def work(message):
        if message.content["config"]["server-round"] == 2:
            raise RuntimeError("out of memory")

    app = app_with(training_log(str(log), device="phone", batch=4, epochs=1), work)
    send(app, 1)
    with pytest.raises(RuntimeError, match="out of memory"):
        send(app, 2)
    send(app, 3)
    rows = list(csv.DictReader(log.open()))
    assert [(row["device"], row["round"], bool(row["compute_s"])) for row in rows] == [
        ("phone", "1", True), ("phone", "2", False), ("phone", "3", True)]
    assert calibrate(log).as_json()["availability"]["share"]["value"] == pytest.approx(2 / 3)
