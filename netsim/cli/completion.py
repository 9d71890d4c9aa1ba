"""What the Tab key offers as values: names that the program knows. Where none begins so, shells offer files."""

from __future__ import annotations

from collections.abc import Iterable


def scenarios(incomplete: str) -> list[str]:
    from netsim.scenario import builtin_scenarios

    return beginning(incomplete, builtin_scenarios())


def allocation_methods(incomplete: str) -> list[str]:
    from netsim.allocation.methods import METHODS

    return beginning(incomplete, METHODS.summaries)


def datasets(incomplete: str) -> list[str]:
    from netsim.learning.datasets import DATASETS

    return beginning(incomplete, DATASETS.summaries)


def formats(incomplete: str) -> list[str]:
    from netsim.analysis.export import FORMATS

    return beginning(incomplete, FORMATS.summaries)


def targets(incomplete: str) -> list[str]:
    from netsim.paper.reproduce import BEYOND, TARGETS

    return beginning(incomplete, [*TARGETS, *BEYOND, "all"])


def beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    """The names that begin with what was typed."""
    return [name for name in names if name.startswith(incomplete)]
