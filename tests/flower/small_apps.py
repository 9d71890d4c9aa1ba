"""Small Flower apps, in the layout that Flower's own quickstarts have, written into a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'netsim[flower]'")

from netsim import load_scenario
from netsim.flower import run_app
from netsim.run import Run
from netsim.scenario import Scenario

PYPROJECT = """
[project]
name = "quickstart"
version = "1.0.0"
dependencies = ["flwr", "numpy"]

[tool.flwr.app]
publisher = "someone"

[tool.flwr.app.components]
serverapp = "quickstart.server_app:app"
clientapp = "quickstart.client_app:app"

[tool.flwr.app.config]
num-server-rounds = 3
fraction-train = 1.0
min-nodes = 2
timeout = 3600.0
log = ""
optimiser.rate = 0.5
"""

TASK = """
import numpy as np

SIZE = 3119                    # of 32 bits, and three metrics of 64: 100 kbit, as an upload of "tiny" has


def initial():
    return np.zeros(SIZE, np.float32)


def fit(weights, partition, rate):
    target = np.random.default_rng(partition).standard_normal(SIZE).astype(np.float32)
    noise = np.random.standard_normal(SIZE).astype(np.float32)       # of the global generator
    return weights + np.float32(rate) * (target + noise - weights)
"""

CLIENT = """
import random

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from quickstart.task import fit

app = ClientApp()


@app.train()
def train(msg: Message, context: Context) -> Message:
    weights = msg.content["arrays"].to_numpy_ndarrays()[0]
    trained = fit(weights, context.node_config["partition-id"], context.run_config["optimiser.rate"])
    metrics = {"num-examples": 100, "drawn": random.random(), "train_loss": float(abs(trained - weights).mean())}
    return Message(RecordDict({"arrays": ArrayRecord([trained]), "metrics": MetricRecord(metrics)}), reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    weights = msg.content["arrays"].to_numpy_ndarrays()[0]
    metrics = {"num-examples": 50, "eval_loss": float(abs(weights).mean()), "eval_acc": 0.5}
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=msg)
"""

SERVER = """
import json

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from quickstart.task import initial

app = ServerApp()
seen = []


class Noting(FedAvg):
    def aggregate_train(self, server_round, replies):
        replies = list(replies)
        seen.append([msg.error.reason if msg.has_error() else "arrived" for msg in replies])
        return super().aggregate_train(server_round, replies)


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    strategy = Noting(fraction_train=config["fraction-train"], min_available_nodes=config["min-nodes"])
    try:
        strategy.start(grid=grid, initial_arrays=ArrayRecord([initial()]), num_rounds=config["num-server-rounds"],
                       timeout=config["timeout"])
    finally:
        if config["log"]:
            with open(config["log"], "w") as file:
                json.dump(seen, file)
"""


def write_app(folder: Path, **files: str) -> Path:
    """The app, with some of its files (task, client_app, server_app, pyproject) written otherwise."""
    texts = {"task": TASK, "client_app": CLIENT, "server_app": SERVER, "__init__": "", **files}
    package = folder / "quickstart"
    package.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(texts.pop("pyproject", PYPROJECT))
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    return folder


def tiny(*changes: str) -> Scenario:
    """Five devices, of which one knows how long they take."""
    return load_scenario("tiny", list(changes))


def play(app: Path, scenario: Scenario | None = None, *config: str, seed: int = 0, workers: int = 2,
         out: Path | None = None) -> tuple[Run, list[list[str]]]:
    """The run, and what its strategy saw: the reasons of a round's replies, in the order of its messages."""
    log = app / "log.json"
    run = run_app(app, scenario or tiny(), out, seed, workers=workers, run_config=[f'log="{log}"', *config])
    return run, json.loads(log.read_text()) if log.exists() else []
