"""Average the replies of the devices, and test the result on held-out digits."""

import numpy as np
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from digits.task import make_model, test, test_part

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    strategy = FedAvg(fraction_train=config["fraction-train"])
    result = strategy.start(
        grid=grid, initial_arrays=ArrayRecord(make_model()), num_rounds=config["num-server-rounds"],
        evaluate_fn=evaluate)
    if config["final-model"]:
        np.savez(config["final-model"], *result.arrays.to_numpy_ndarrays())


def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    loss, accuracy = test(arrays.to_numpy_ndarrays(), *test_part())
    return MetricRecord({"loss": loss, "accuracy": accuracy})
