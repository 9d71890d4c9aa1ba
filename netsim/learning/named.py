"""What the table ``[learning]`` names: data, their split, a model, and how models become one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netsim.learning.aggregation import AGGREGATIONS
from netsim.learning.datasets import DATASETS
from netsim.learning.partition import PARTITIONS, partition_options
from netsim.models import MODELS

if TYPE_CHECKING:
    from netsim.scenario import Scenario


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
