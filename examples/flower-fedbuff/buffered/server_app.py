"""FedBuff server: keep ``concurrency`` devices busy, and aggregate every ``buffer`` updates.

Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation, arXiv 2106.06639.
"""

import random

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp

from buffered.task import accuracy

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    weights, version = np.zeros((65, 10)), 0
    at_work: dict[str, tuple[int, int]] = {}         # by message: the node, and the version that it started from
    buffer: list[np.ndarray] = []

    def fill() -> None:
        """Dispatch the newest model to idle devices until ``concurrency`` jobs are running."""
        free = sorted(set(grid.get_node_ids()) - {node for node, _ in at_work.values()})
        nodes = random.sample(free, min(len(free), config["concurrency"] - len(at_work)))
        content = RecordDict({"arrays": ArrayRecord([weights])})
        messages = [Message(content, dst_node_id=node, message_type=MessageType.TRAIN) for node in nodes]
        for node, message_id in zip(nodes, grid.push_messages(messages), strict=True):
            at_work[message_id] = (node, version)

    fill()
    while version < config["num-updates"] and at_work:
        for reply in grid.pull_messages(list(at_work)):
            _, since = at_work.pop(reply.metadata.reply_to_message_id)
            if reply.has_error():
                print(f"node {reply.metadata.src_node_id}: {reply.error.reason}")
                continue
            [step] = reply.content["step"].to_numpy_ndarrays()
            buffer.append(step / np.sqrt(1.0 + version - since))
            if len(buffer) == config["buffer"]:
                weights, version = weights + np.mean(buffer, axis=0), version + 1
                buffer.clear()
        fill()
    print(f"{version} models, accuracy {accuracy(weights):.1%}")
    if config["final-model"]:
        np.save(config["final-model"], weights)
