"""The table ``[learning]`` of a scenario: model, data and training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from netsim.base.fields import (
    OWN,
    DataSize,
    Fraction,
    Model,
    Natural,
    NotNegative,
    OpenTable,
    Positive,
    field_error,
    key,
    named_in,
    one_of,
)


class Majority(Model):
    """A fraction sigma of the samples of a device is of its majority class, the rest of random other classes."""

    kind: Literal["majority"]
    sigma: Annotated[Fraction, key("fraction of the majority class")] = 0.8


class TwoClass(Model):
    """Two classes per device, 80 % and 20 % (case H of the paper)."""

    kind: Literal["two-class"]


class Iid(Model):
    """Samples drawn uniformly at random (IID)."""

    kind: Literal["iid"]


class Dirichlet(Model):
    """Class shares of a device drawn from a symmetric Dirichlet distribution."""

    kind: Literal["dirichlet"]
    alpha: Annotated[Positive, key("concentration; small: few classes per device, large: equal class shares")] = 0.5


class Shards(Model):
    """Samples sorted by class and cut into equal shards, a fixed number of which go to each device."""

    kind: Literal["shards"]
    per_device: Annotated[Natural, key("number of shards per device")] = 2


class PartitionFile(Model):
    """Sample indices of each device from a JSON file."""

    kind: Literal["file"]
    path: Annotated[str, Field(min_length=1), key("JSON: device number to list of sample indices")]


class OwnPartition(OpenTable):
    """A partition of your own, with its options."""

    kind: Annotated[str, Field(pattern=OWN)]


Partition = Annotated[
    Annotated[Majority, Tag("majority")] | Annotated[TwoClass, Tag("two-class")] | Annotated[Iid, Tag("iid")]
    | Annotated[Dirichlet, Tag("dirichlet")] | Annotated[Shards, Tag("shards")] | Annotated[PartitionFile, Tag("file")]
    | Annotated[OwnPartition, Tag("own")], Discriminator(lambda table: named_in(table, "kind"))]


class ModelTable(OpenTable):
    """A model with options; all keys but its name are its options, which the model checks."""

    name: Annotated[str, Field(min_length=1), key('name of the model')]


def _name_alone(model: Any) -> Any:
    """Replace a table without options by the name in it."""
    return model["name"] if isinstance(model, Mapping) and set(model) == {"name"} else model


class NoOptimiser(Model):
    """The aggregated model is the new global model."""

    kind: Literal["none"] = "none"


class MomentumOptimiser(Model):
    """Server momentum on the updates (FedAvgM)."""

    kind: Literal["momentum"]
    learning_rate: Positive = 1.0
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9


class AdamOptimiser(Model):
    """The server applies Adam to the updates (FedAdam)."""

    kind: Literal["adam"]
    learning_rate: Positive = 0.01
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.99
    epsilon: Positive = 1e-3


Optimiser = Annotated[NoOptimiser | MomentumOptimiser | AdamOptimiser, Field(discriminator="kind")]


class EvaluationTable(Model):
    """Evaluation of the global model."""

    every: Annotated[Natural, key("rounds between evaluations; the last round is always evaluated")] = 1
    samples: Annotated[Natural | Literal["all"], key("number of samples of the test set")] = "all"


class LearningTable(Model):
    """Computing and upload of a device in a round; with a dataset, models are trained."""

    dataset: Annotated[str | None, key('dataset, such as the built-in "digits"; by default nothing is trained')] = None
    root: Annotated[str | None, key("folder with the data, relative to the scenario file")] = None
    model: Annotated[
        str | ModelTable | None, BeforeValidator(_name_alone),
        key('a built-in model, or "package.module:Class" of an installed package')] = None
    bits: Annotated[DataSize | Literal["auto"], key('size of an upload; "auto": 32 bits per model parameter')] = "auto"
    partition: Annotated[Partition, key("partition of the samples among the devices")] = Majority(kind="majority")
    buffers: Annotated[
        Literal["average", "local"] | None,
        key('buffers of a model, such as those of batch normalisation: uploaded and averaged (the default), or '
            '"local" to each device')] = None
    local_epochs: Annotated[
        Natural | None, key("L: epochs over the samples of the device per round; cycles = L C_n D_n")] = None
    local_steps: Annotated[Natural | None, key("gradient steps per round, instead of epochs")] = None
    batch_size: Annotated[Natural, key("samples per gradient step")] = 10
    flops_per_sample: Annotated[Positive | None, key(
        'floating-point operations to train on one sample, for cycles_per_sample = "auto"; by default those of the '
        "model, forward and backward")] = None
    learning_rate: Annotated[Positive, key("step size of local training")] = 0.05
    momentum: Annotated[float, Field(ge=0, lt=1), key("momentum of local training")] = 0.0
    weight_decay: Annotated[NotNegative, key("L2 regularisation of the weights")] = 0.0
    proximal: Annotated[NotNegative, key("FedProx's mu: proximal term towards the global model")] = 0.0
    fedl: Annotated[Positive | None, key("FEDL's eta: weight of the global gradient of the last round")] = None
    aggregation: Annotated[
        str, *one_of("weighted", "mean", "unbiased"),
        key("weights: samples (eq. 4), equal (\"mean\"), or inverse selection probabilities (ICAS)")] = "weighted"
    optimiser: Annotated[Optimiser, key("optimiser of the server, applied to the aggregate")] = NoOptimiser()
    target_accuracy: Annotated[
        Annotated[float, Field(gt=0, le=1)] | None, key("test accuracy at which the run ends")] = None
    evaluation: Annotated[EvaluationTable, key("evaluation of the global model")] = EvaluationTable()
    device: Annotated[
        Literal["cpu", "cuda", "mps", "auto"] | None,
        key('what computes training and evaluation; "auto": a GPU if there is one; by default the CPU')] = None

    @property
    def model_name(self) -> str | None:
        return self.model.name if isinstance(self.model, ModelTable) else self.model

    @property
    def model_options(self) -> dict[str, Any]:
        return self.model.options if isinstance(self.model, ModelTable) else {}

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, data: Any) -> Any:
        """Default to one epoch, unless the scenario gives epochs or steps."""
        missing = isinstance(data, Mapping) and not {"local_epochs", "local_steps"} & set(data)
        return {**data, "local_epochs": 1} if missing else data

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.local_epochs is not None and self.local_steps is not None:
            raise field_error("conflict", "local_steps", expected="no local_epochs beside it")
        if self.dataset is None and self.bits == "auto":
            raise field_error("missing", "bits", expected='the size of an upload, such as "448 kbit"',
                              hint="Without a dataset no model determines it")
        if self.dataset is not None and self.model is None:
            raise field_error("missing", "model", expected='the model to train, such as "mnist-cnn"')
        return self
