"""Part of a scenario that applies to a Flower app, which selects, aggregates and trains itself.

Also the app's learning backend, which stores nothing and knows the sizes of jobs only from replies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.errors import InputError
from netsim.fleet.population import Population, draw_samples
from netsim.fleet.work import JobSizes, samples_trained
from netsim.learning.protocol import NoLearning
from netsim.scenario import Scenario

# By table: the only keys with an effect (COUNT), or the keys without one (DO_NOT).
COUNT = {"learning": {"local_iterations", "local_steps", "batch_size"}, "selection": {"cohort"}, "server": set(),
         "end": {"time"}}
DO_NOT = {"rounds": {"first", "first_infeasible"}}
INSTEAD = {
    "learning": "the app determines the model, the data and their sizes",
    "selection": "the app selects the devices",
    "server": "the app's ServerApp is the server",
    "end": "the app determines the number of rounds",
    "rounds": "the app selects the devices of the first round",
}


def refuse_without_effect(changes: Sequence[str]) -> None:
    """Raise InputError for a change (KEY=VALUE) of a key without effect on an app."""
    for change in changes:
        table, _, key = change.partition("=")[0].strip().partition(".")
        key = key.partition(".")[0]
        if (table in COUNT and key not in COUNT[table]) or key in DO_NOT.get(table, ()):
            raise InputError("no-effect", f"--set {change}", hint=f"With a Flower app {INSTEAD[table]}; --run-config "
                             "changes the app's own configuration")


def as_the_app_sees_it(scenario: Scenario) -> Scenario:
    """Return the scenario without the settings that the app decides: first round, server, target accuracy."""
    return scenario.model_copy(update={
        "rounds": scenario.rounds.model_copy(update={"first": "cohort"}), "server": None,
        "learning": scenario.learning.model_copy(update={"target_accuracy": None})})


class AppLearning(NoLearning):
    """Learning backend of an app, whose replies determine the bits and samples of a job."""

    trains = True

    def __init__(self, scenario: Scenario, seed: int) -> None:
        drawn = draw_samples(scenario, seed)
        super().__init__(scenario.size, np.ones(scenario.size, np.int64) if drawn is None else drawn)

    def sizes(self, scenario: Scenario, population: Population) -> JobSizes:
        """Return minimal sizes until a reply is known: one sample, and one bit in each direction."""
        one = np.ones(len(population))
        return JobSizes(one, one, cycles_of(scenario, population, np.arange(len(population)), one))


def cycles_of(scenario: Scenario, population: Population, devices: Ints, samples: Floats | Ints) -> Floats:
    """Return the CPU cycles of training on ``samples`` samples per device."""
    trained = samples_trained(scenario, np.maximum(1, samples).astype(np.int64))
    return trained * population.cycles_per_sample[devices]
