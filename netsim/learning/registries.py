"""Registries that the table ``[learning]`` refers to: datasets, partitions, models, aggregations.

torch is imported only where a model is built, so that checking a scenario and planning without learning are fast.
"""

from __future__ import annotations

from collections.abc import Mapping

from netsim.base.fields import options_in
from netsim.learning.aggregation import AGGREGATIONS
from netsim.learning.datasets import DATASETS, KNOWN, ROOT, load_dataset
from netsim.learning.partition import PARTITIONS
from netsim.models import MODELS
from netsim.scenario import Scenario

__all__ = ["AGGREGATIONS", "DATASETS", "MODELS", "PARTITIONS"]


def permit_learning(scenario: Scenario, *, allow_import: bool = False) -> None:
    """Raise InputError for an unknown name or code that is not permitted; see ``Registry.permit``."""
    learning = scenario.learning
    for registry, name in ((DATASETS, learning.dataset), (PARTITIONS, learning.partition.kind),
                           (MODELS, learning.model_name), (AGGREGATIONS, learning.aggregation)):
        if name is not None:
            registry.permit(name, allow_import=allow_import)


def check_learning(scenario: Scenario) -> None:
    """Raise InputError for unknown names or options; a built-in model without options is not imported."""
    learning = scenario.learning
    PARTITIONS.options(learning.partition.kind, options_in(learning.partition, "kind"))
    if learning.dataset is not None:
        DATASETS.find(learning.dataset)
    if learning.model_name is not None and (learning.model_name not in MODELS or learning.model_options):
        MODELS.options(learning.model_name, learning.model_options)


def layers_of(scenario: Scenario) -> Mapping[str, slice] | None:
    """Build the model for the dataset's image shape and return its layers; raise InputError if it does not fit.

    Return None if the image shape is known only from the data, except for ``arrays``, which is one file: other data
    may be large and are read when a run starts.
    """
    learning = scenario.learning
    if learning.model_name is None or learning.dataset not in (*KNOWN, "arrays"):
        return None
    from netsim.learning.batched_network import Network
    from netsim.learning.local_training import check_buffers
    from netsim.models import build_model

    shape, classes, tokens = input_shape(learning.dataset, learning.root)
    model = build_model(learning.model_name, shape, classes, options=learning.model_options, tokens=tokens)
    network = Network(model, shape)
    check_buffers(learning, network)
    return network.layers


def input_shape(dataset: str, root: str | None) -> tuple[tuple[int, ...], int, bool]:
    """Return the shape of a sample, the number of classes, and whether samples are tokens; load unknown data only."""
    if dataset in KNOWN:
        return *KNOWN[dataset], False
    data = load_dataset(dataset, root or ROOT)
    return data.shape, data.classes, data.tokens


def upload_bits(scenario: Scenario) -> float:
    """Return z, the bits of an upload; ``bits = "auto"`` builds the model to count its parameters."""
    if scenario.learning.bits != "auto":
        return scenario.bits()
    from netsim.learning.local_training import count_parameters

    return scenario.bits(count_parameters(scenario))
