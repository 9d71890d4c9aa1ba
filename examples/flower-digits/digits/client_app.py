"""Train or test the model on the digits of one device."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits.task import part, test, train

app = ClientApp()


@app.train()
def train_here(message: Message, context: Context) -> Message:
    model = [array.copy() for array in message.content["arrays"].to_numpy_ndarrays()]
    images, labels = part(context.node_config["partition-id"], context.node_config["num-partitions"])
    loss = train(
        model, images, labels, epochs=context.run_config["local-epochs"], rate=context.run_config["learning-rate"],
        batch=context.run_config["batch-size"])
    content = RecordDict({
        "arrays": ArrayRecord(model), "metrics": MetricRecord({"train_loss": loss, "num-examples": len(labels)})})
    return Message(content, reply_to=message)


@app.evaluate()
def test_here(message: Message, context: Context) -> Message:
    images, labels = part(context.node_config["partition-id"], context.node_config["num-partitions"])
    loss, accuracy = test(message.content["arrays"].to_numpy_ndarrays(), images, labels)
    metrics = MetricRecord({"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(labels)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
