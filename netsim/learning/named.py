"""What the table ``[learning]`` names: data, their split, a model, and how models become one.

Nothing here imports torch before it is needed: a scenario is checked, and planned without learning, in less time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from netsim.base.arrays import Ints
from netsim.learning.aggregation import AGGREGATIONS
from netsim.learning.datasets import DATASETS, KNOWN, ROOT, load_dataset
from netsim.learning.partition import PARTITIONS, partition_options
from netsim.models import MODELS

if TYPE_CHECKING:
    from netsim.scenario import Scenario

__all__ = ["AGGREGATIONS", "DATASETS", "MODELS", "PARTITIONS"]


def permit_learning(scenario: Scenario, *, allow_import: bool = False) -> None:
    """Raise InputError for a name that is unknown, or whose code nobody has allowed; see ``Registry.permit``."""
    learning = scenario.learning
    for registry, name in ((DATASETS, learning.dataset), (PARTITIONS, learning.partition.kind),
                           (MODELS, learning.model_name), (AGGREGATIONS, learning.aggregation)):
        if name is not None:
            registry.permit(name, allow_import=allow_import)


def check_learning(scenario: Scenario) -> None:
    """Raise InputError unless what is named is there and takes its options; a plain built-in model is not imported."""
    learning = scenario.learning
    PARTITIONS.options(learning.partition.kind, partition_options(learning.partition))
    if learning.dataset is not None:
        DATASETS.find(learning.dataset)
    if learning.model_name is not None and (learning.model_name not in MODELS or learning.model_options):
        MODELS.options(learning.model_name, learning.model_options)


def layers_of(scenario: Scenario) -> Mapping[str, slice] | None:
    """Build the model for the images that it is to learn from, and answer its layers; InputError where it does not fit.

    None where only the data themselves can say what the images are like, unless they are arrays in one file: others are
    read when a run begins, and no sooner, since they may be many.
    """
    learning = scenario.learning
    if learning.model_name is None or learning.dataset not in (*KNOWN, "arrays"):
        return None
    from netsim.learning.learner import check_buffers
    from netsim.learning.network import Network
    from netsim.models import build_model

    if learning.dataset == "arrays":
        data = load_dataset(learning.dataset, learning.root or ROOT)
        shape, classes = data.shape, data.classes
    else:
        shape, classes = KNOWN[learning.dataset]
    network = Network(build_model(learning.model_name, shape, classes, options=learning.model_options), shape)
    check_buffers(learning, network)
    return network.layers


def upload_bits(scenario: Scenario) -> float:
    """z; only ``bits = "auto"`` has to build the model for it."""
    if scenario.learning.bits != "auto":
        return scenario.bits()
    from netsim.learning.learner import count_parameters

    return scenario.bits(count_parameters(scenario))


def samples_without_learning(scenario: Scenario, seed: int) -> Ints | None:
    """D_n where only the data split knows it (``samples = "auto"``), else None: as the scenario says."""
    if all(table.samples != "auto" for table in scenario.population):
        return None
    from netsim.learning.learner import split

    return np.array([len(part) for part in split(scenario, seed)], dtype=np.int64)
