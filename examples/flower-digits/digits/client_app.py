"""What a device does: train the model on its own digits, or test it on them."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits.task import make_model, part, test, train

app = ClientApp()


@app.train()
def train_here(message: Message, context: Context) -> Message:
    model = make_model()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    images, labels = part(context.node_config["partition-id"], context.node_config["num-partitions"])
    loss = train(
        model, images, labels, epochs=context.run_config["local-epochs"], rate=context.run_config["learning-rate"],
        batch=context.run_config["batch-size"])
    content = RecordDict({
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"train_loss": loss, "num-examples": len(labels)})})
    return Message(content, reply_to=message)


@app.evaluate()
def test_here(message: Message, context: Context) -> Message:
    model = make_model()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    images, labels = part(context.node_config["partition-id"], context.node_config["num-partitions"])
    loss, accuracy = test(model, images, labels)
    metrics = MetricRecord({"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(labels)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
