"""Train the received model on the digits of one device, and return the difference."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from buffered.task import part, train

app = ClientApp()


@app.train()
def train_here(message: Message, context: Context) -> Message:
    [weights] = message.content["arrays"].to_numpy_ndarrays()
    images, labels = part(context.node_config["partition-id"], context.node_config["num-partitions"])
    trained = train(
        weights, images, labels, epochs=context.run_config["local-epochs"], rate=context.run_config["learning-rate"])
    content = RecordDict({
        "step": ArrayRecord([trained - weights]), "metrics": MetricRecord({"num-examples": len(labels)})})
    return Message(content, reply_to=message)
