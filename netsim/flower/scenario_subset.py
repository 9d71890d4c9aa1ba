"""Part of a scenario that applies to a Flower app, which selects, aggregates and trains itself.

Also the app's learning backend, which stores nothing and knows the sizes of jobs only from replies.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path

import numpy as np

from netsim.base.errors import InputError
from netsim.base.types import Floats, Ints
from netsim.devices.population import Population, draw_samples
from netsim.devices.workload import JobSizes, training_cycles
from netsim.executors.cluster import processors_of
from netsim.flower.app_folder import nodes_in, read_app
from netsim.learning.backend import NoLearning
from netsim.scenario import Scenario, load_scenario
from netsim.scenario.aliases import canonical_key

DEFAULT, DEFAULT_TABLE = "phones", "phone"      # scenario of `netsim flower`, and its population
FLOWERS_NODES = 10         # of `flwr run` where nothing else is said

# By table: the only keys with an effect (COUNT), or the keys without one (DO_NOT).
COUNT = {"learning": {"local_epochs", "local_steps", "batch_size", "flops_per_sample"},
         "selection": {"cohort"}, "server": set(), "end": {"time"}}
DO_NOT = {"rounds": {"first", "first_round_policy"}}
INSTEAD = {
    "learning": "the app determines the model, the data and their sizes",
    "selection": "the app selects the devices",
    "server": "the app's ServerApp is the server",
    "end": "the app determines the number of rounds",
    "rounds": "the app selects the devices of the first round",
}


def check_unused_keys(changes: Sequence[str]) -> None:
    """Raise InputError for a change (KEY=VALUE) of a key without effect on an app."""
    for change in changes:
        table, _, key = canonical_key(change.partition("=")[0].strip()).partition(".")
        key = key.partition(".")[0]
        if (table in COUNT and key not in COUNT[table]) or key in DO_NOT.get(table, ()):
            raise InputError("no-effect", f"--set {change}", hint=f"With a Flower app {INSTEAD[table]}; --run-config "
                             "changes the app's own configuration")


def load_for_app(folder: Path, name: str | None, changes: Sequence[str], federation: str | None) -> Scenario:
    """Load the scenario of the app in a folder, with changes of keys, KEY=VALUE each; by default ``DEFAULT``.

    ``federation`` is ``--federation-config``, the number of nodes; without it ``DEFAULT`` has as many devices as the
    app has nodes. ``selection.cohort`` is at most the number of devices: the app selects.
    """
    check_unused_keys(changes)
    nodes = nodes_in(federation)
    if nodes is None and name is None:
        nodes = read_app(folder).nodes
    counted = any(change.startswith("population.") and ".count" in change for change in changes)
    if name is None:
        more = [] if counted else [f"population.{DEFAULT_TABLE}.count={nodes or FLOWERS_NODES}"]
    else:
        more = [] if nodes is None else [f"population.{_only_table(name, changes)}.count={nodes}"]
    return _with_small_cohort(name or DEFAULT, [*changes, *more])


def _only_table(name: str, changes: Sequence[str]) -> str:
    """Return the name of the population table that can have another number of devices."""
    tables = _with_small_cohort(name, changes).population
    if len(tables) > 1 or tables[0].count is None:
        raise InputError("conflict", "--federation-config", "num-supernodes", "a scenario with one "
                         "[[population]] table that has a count", "Use --set population.NAME.count=N")
    return tables[0].name


def _with_small_cohort(name: str, changes: Sequence[str]) -> Scenario:
    try:
        return load_scenario(name, list(changes))
    except InputError as error:
        if (error.code, error.key) != ("more-than-devices", "selection.cohort"):
            raise
        size = load_scenario(name, [*changes, "selection.cohort=1"]).size
        return load_scenario(name, [*changes, f"selection.cohort={size}"])


def app_scenario(scenario: Scenario) -> Scenario:
    """Return the scenario without the settings that the app decides: first round, server, target accuracy.

    Raise InputError if it has a [server] table, which would have no effect.
    """
    if scenario.server is not None:
        raise InputError("no-effect", "server", f'kind = "{scenario.server.kind}"', hint=f"With a Flower app "
                         f"{INSTEAD['server']}; remove the table, or use another scenario")
    return scenario.model_copy(update={
        "rounds": scenario.rounds.model_copy(update={"first": "cohort"}), "server": None,
        "learning": scenario.learning.model_copy(update={"target_accuracy": None})})


class AppLearning(NoLearning):
    """Learning backend of an app, whose replies determine the bits and samples of a job."""

    trains = True

    def __init__(self, scenario: Scenario, seed: int, pool: Executor | None = None) -> None:
        self._pool = pool                # of ClientApps; None if Flower's engine runs them
        drawn = draw_samples(scenario, seed)
        super().__init__(scenario.size, np.ones(scenario.size, np.int64) if drawn is None else drawn)

    def flops_per_sample(self, scenario: Scenario) -> float | None:
        """Return learning.flops_per_sample, since the app's model is not that of the scenario; or else 1, so that
        cycles per sample of the population are cycles per FLOP."""
        return scenario.learning.flops_per_sample or (1.0 if self._pool else None)

    @property
    def processor(self) -> str | None:
        return processors_of(self._pool)

    def sizes(self, scenario: Scenario, population: Population) -> JobSizes:
        """Return minimal sizes until a reply is known: one sample, and one bit in each direction."""
        one = np.ones(len(population))
        return JobSizes(one, one, cycles_of(scenario, population, np.arange(len(population)), one))


def cycles_of(scenario: Scenario, population: Population, devices: Ints, samples: Floats | Ints) -> Floats:
    """Return the CPU cycles of training on ``samples`` samples per device."""
    return training_cycles(scenario, population, devices, np.maximum(1, samples).astype(np.int64))
