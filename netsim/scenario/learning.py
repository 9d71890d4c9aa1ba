"""The table ``[learning]`` of a scenario: what devices compute and upload, and how they are trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from netsim.base.fields import (
    OWN,
    DataSize,
    Fraction,
    Model,
    Named,
    Natural,
    NotNegative,
    OpenTable,
    Positive,
    field_error,
    key,
    named_in,
)


class Majority(Model):
    """A share sigma of a device's samples is of its majority class, the rest is drawn from the others."""

    kind: Literal["majority"]
    sigma: Annotated[Fraction, key("share of the majority class")] = 0.8


class TwoClass(Model):
    """Two classes a device, 80 % and 20 % (case H of the paper)."""

    kind: Literal["two-class"]


class Iid(Model):
    """Samples drawn at random, whatever their class."""

    kind: Literal["iid"]


class Dirichlet(Model):
    """Class shares of a device drawn from a symmetric Dirichlet distribution."""

    kind: Literal["dirichlet"]
    alpha: Annotated[Positive, key("small: few classes a device; large: all alike")] = 0.5


class Shards(Model):
    """Samples sorted by class, cut into equal shards, so many of them dealt to each device."""

    kind: Literal["shards"]
    per_device: Annotated[Natural, key("shards that a device gets")] = 2


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
    """A network with options; all keys but its name are its options, which the network itself checks."""

    name: Annotated[str, Field(min_length=1), key('a network, as the plain text would name it')]


def _name_alone(model: Any) -> Any:
    """A table without options says no more than the name in it."""
    return model["name"] if isinstance(model, Mapping) and set(model) == {"name"} else model


class NoOptimiser(Model):
    """The aggregated model is the new global model."""

    kind: Literal["none"] = "none"


class MomentumOptimiser(Model):
    """The server moves along a running mean of the updates (FedAvgM)."""

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
    """When and on how much the global model is tested."""

    every: Annotated[Natural, key("test after every so many rounds; the last one is always tested")] = 1
    samples: Annotated[Natural | Literal["all"], key("how many samples of the test set")] = "all"


class LearningTable(Model):
    """What a device computes and uploads in a round; with a dataset, it is trained for real."""

    dataset: Annotated[str | None, key('"digits" is always there; without a dataset nothing is trained')] = None
    root: Annotated[str | None, key("folder with the data, relative to the scenario file")] = None
    model: Annotated[
        str | ModelTable | None, BeforeValidator(_name_alone),
        key('a built-in network, or "package.module:Class" of an installed package')] = None
    bits: Annotated[DataSize | Literal["auto"], key('size of an upload; "auto": 32 bits a model parameter')] = "auto"
    partition: Annotated[Partition, key("how the samples are split over the devices")] = Majority(kind="majority")
    buffers: Annotated[
        Literal["average", "local"] | None,
        key('what a model keeps besides its weights, as batch normalisation does: sent along and averaged (so where '
            'nothing is said), or kept by each device')] = None
    local_iterations: Annotated[
        Natural | None, key("L: passes over the device's samples in a round; cycles = L C_n D_n")] = None
    local_steps: Annotated[Natural | None, key("gradient steps in a round, instead of passes")] = None
    batch_size: Annotated[Natural, key("samples in a gradient step")] = 10
    learning_rate: Annotated[Positive, key("step size of local training")] = 0.05
    momentum: Annotated[float, Field(ge=0, lt=1), key("momentum of local training")] = 0.0
    weight_decay: Annotated[NotNegative, key("pull of the weights towards 0")] = 0.0
    proximal: Annotated[NotNegative, key("FedProx's mu: pull towards the global model")] = 0.0
    fedl: Annotated[Positive | None, key("FEDL's eta: steps follow the global gradient of the last round too")] = None
    aggregation: Annotated[
        str, Named("weighted", "mean", "unbiased"),
        key("weighted by samples (eq. 4), a plain mean, or by the chances of selection (ICAS)")] = "weighted"
    optimiser: Annotated[Optimiser, key("what the server does with the aggregate")] = NoOptimiser()
    target_accuracy: Annotated[
        Annotated[float, Field(gt=0, le=1)] | None, key("the run ends when the test accuracy reaches it")] = None
    evaluation: Annotated[EvaluationTable, key("when and on how much the global model is tested")] = EvaluationTable()

    @property
    def model_name(self) -> str | None:
        """The network's name, whichever way it is written."""
        return self.model.name if isinstance(self.model, ModelTable) else self.model

    @property
    def model_options(self) -> dict[str, Any]:
        """What is set of the network."""
        return self.model.options if isinstance(self.model, ModelTable) else {}

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, data: Any) -> Any:
        """One pass, unless the scenario gives passes or steps; stored runs call the optimiser ``server``."""
        if not isinstance(data, Mapping):
            return data
        if {"server", "optimiser"} <= set(data):
            raise field_error("renamed", "server", hint="It is the old name of optimiser, which is given too")
        passes = {} if {"local_iterations", "local_steps"} & set(data) else {"local_iterations": 1}
        return {"optimiser" if name == "server" else name: value for name, value in data.items()} | passes

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.local_iterations is not None and self.local_steps is not None:
            raise field_error("conflict", "local_steps", expected="no local_iterations beside it")
        if self.dataset is None and self.bits == "auto":
            raise field_error("missing", "bits", expected='the size of an upload, such as "448 kbit"',
                              hint="Without a dataset there is no model whose size it could be")
        if self.dataset is not None and self.model is None:
            raise field_error("missing", "model", expected='the network to train, such as "mnist-cnn"')
        return self
