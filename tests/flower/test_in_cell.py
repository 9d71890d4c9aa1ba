"""A strategy in the cell, while another engine runs the clients."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from small_apps import tiny

from netsim.base.errors import InputError
from netsim.flower import InCell
from netsim.flower.version_check import identify

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict  # isort: skip
from flwr.serverapp import Grid  # isort: skip
from flwr.serverapp.strategy import FedAvg  # isort: skip


class Engine(Grid):
    """Nodes that answer at once: each adds its own place to the model."""

    def __init__(self, nodes: int = 5, floats: int = 3123) -> None:
        self.nodes, self.floats = [17 + 10 * place for place in range(nodes)], floats
        identify(1)

    def get_node_ids(self):
        return list(self.nodes)

    def send_and_receive(self, messages, *, timeout=None):
        return [self.answer(message) for message in messages]

    def answer(self, message: Message) -> Message:
        arrays = message.content["arrays"].to_numpy_ndarrays()
        place = self.nodes.index(message.metadata.dst_node_id)
        if message.metadata.message_type == "evaluate":
            metrics = MetricRecord({"num-examples": 100, "eval_acc": 0.75})
            return Message(RecordDict({"metrics": metrics}), reply_to=message)
        content = {"arrays": ArrayRecord([arrays[0] + np.float32(place)]), "metrics": MetricRecord({
            "num-examples": 100})}
        return Message(RecordDict(content), reply_to=message)

    set_run = create_message = push_messages = pull_messages = None
    run = None


def start() -> ArrayRecord:
    return ArrayRecord([np.zeros(3123, np.float32)])


def test_one_changed_line_gives_the_strategy_a_cell(tmp_path):
    plain = FedAvg().start(Engine(), start(), num_rounds=3)
    strategy = InCell(FedAvg(), tiny(), tmp_path / "run")
    result = strategy.start(Engine(), start(), num_rounds=3)
    assert np.allclose(result.arrays.to_numpy_ndarrays()[0], plain.arrays.to_numpy_ndarrays()[0])
    assert result.evaluate_metrics_clientapp[3]["eval_acc"] == pytest.approx(0.75)
    # the table at the head of scenarios/tiny.toml
    assert strategy.run.rounds["round_s"].to_list() == pytest.approx([0.0507526] * 3, abs=1e-7)
    assert strategy.run.rounds["accuracy"].to_list() == pytest.approx([0.75] * 3)
    assert strategy.run.breakdown().rounds.height == 3


def test_who_does_not_arrive_is_not_averaged():
    # device 4 has no plan: of the places 0 to 3, the mean is 1.5
    strategy = InCell(FedAvg(), tiny("population.node.budget=4mJ"))
    result = strategy.start(Engine(), start(), num_rounds=2)
    assert result.arrays.to_numpy_ndarrays()[0] == pytest.approx(np.full(3123, 3.0))
    assert strategy.run.jobs.filter(pl.col("outcome") == "infeasible")["device"].to_list() == [4, 4]


@pytest.mark.slow
def test_nodes_without_energy_are_not_asked_and_in_the_end_the_run_is_over(capfd):
    strategy = InCell(FedAvg(min_available_nodes=4), tiny("population.node.battery=14mJ"))
    result = strategy.start(Engine(), start(), num_rounds=50)
    assert 2 <= strategy.run.summary["rounds"] < 50
    assert "waits for more nodes" in strategy.run.summary["ended"]
    assert "waits for more nodes" in capfd.readouterr().err
    assert result.arrays is not None


def test_the_server_evaluates_too():
    strategy = InCell(FedAvg(fraction_evaluate=0.0), tiny())
    strategy.start(Engine(), start(), num_rounds=2,
                   evaluate_fn=lambda round, arrays: MetricRecord({"accuracy": round / 10}))
    assert strategy.run.rounds["accuracy"].to_list() == pytest.approx([0.1, 0.2])


def test_more_nodes_than_devices():
    with pytest.raises(InputError) as error:
        InCell(FedAvg(), tiny()).start(Engine(6), start(), num_rounds=1)
    assert (error.value.code, error.value.key) == ("more-than-devices", "the app's nodes")


def test_a_strategy_with_a_loop_of_its_own():
    class Twice(FedAvg):
        def start(self, grid, initial_arrays, num_rounds=3, **options):
            super().start(grid, initial_arrays, num_rounds, **options)
            return super().start(grid, initial_arrays, num_rounds, **options)

    strategy = InCell(Twice(), tiny())
    strategy.start(Engine(), start(), num_rounds=2)
    assert strategy.run.summary["rounds"] == 4
