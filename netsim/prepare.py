"""What a scenario names, checked before any long work: that it is there, may be imported, and fits together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from netsim.allocation import METHODS as ALLOCATION
from netsim.allocation import check_method
from netsim.base.errors import InputError
from netsim.base.registry import Registry
from netsim.cell.disciplines import DISCIPLINES
from netsim.learning.aggregation import needs_chances
from netsim.learning.named import check_learning, layers_of, permit_learning
from netsim.selection import METHODS as SELECTION
from netsim.selection import Selection, make_selection
from netsim.server import SERVERS
from netsim.world import CHANNELS

if TYPE_CHECKING:
    from netsim.scenario import Scenario


def permit(scenario: Scenario, *, allow_import: bool = False) -> None:
    """Raise InputError for a name that is unknown, or whose code is not made for netsim and was not allowed.

    Whoever executes a scenario asks here first: up to this point nothing that it names was imported.
    """
    ALLOCATION.permit(scenario.allocation.method, allow_import=allow_import)
    SELECTION.permit(scenario.selection.method, allow_import=allow_import)
    for registry, name in brought(scenario):
        registry.permit(name, allow_import=allow_import)
    permit_learning(scenario, allow_import=allow_import)


def brought(scenario: Scenario) -> list[tuple[Registry[Any], str]]:
    """What else a scenario names, with where such things are looked up: discipline, channel, server."""
    named = ((DISCIPLINES, scenario.allocation.sharing), (CHANNELS, scenario.cell.channel),
             (SERVERS, scenario.server.kind if scenario.server else None))
    return [(registry, name) for registry, name in named if name is not None]


def prepare(scenario: Scenario, *, learning: bool, allow_import: bool = False) -> Selection:
    """Check what a scenario names; returns its selection method.

    ``allow_import`` lets it name code of packages that are not made for netsim.
    """
    permit(scenario, allow_import=allow_import)
    check_method(scenario.allocation.method, scenario.allocation.options)
    for registry, name in brought(scenario):
        registry.options(name, scenario.server.options if registry is SERVERS and scenario.server else {})
    selection = make_selection(scenario.selection.method, scenario.selection.options)
    aggregation = scenario.learning.aggregation
    if needs_chances(aggregation) and "chances" not in getattr(selection, "gives", ()):
        raise InputError(
            f'learning.aggregation "{aggregation}" needs a selection that draws by known chances: take '
            'selection.method icas, or "weighted"')
    if selection.needs and not learning:
        raise InputError(
            f'selection.method "{scenario.selection.method}" needs {" and ".join(sorted(selection.needs))} of the '
            "devices, which only learning gives: give the scenario a dataset and let it learn (without --no-learning; "
            "in a sweep file, without learning = false), or take another method (fedavg, round-robin)")
    if learning:
        check_learning(scenario)
    return selection


def check_layers(selection: Selection, layers: Mapping[str, slice]) -> None:
    """Let a selection method that looks at models say whether it can with this one, before the first round."""
    check = getattr(selection, "check_model", None)
    if check:
        check(layers)


def check_whole(scenario: Scenario, *, allow_import: bool = False) -> None:
    """All that can be said of a scenario before its data are read: as ``prepare``, and its model is built and tried."""
    selection = prepare(scenario, learning=scenario.trains, allow_import=allow_import)
    layers = layers_of(scenario) if scenario.trains else None
    if layers is not None:
        check_layers(selection, layers)
