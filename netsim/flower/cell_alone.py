"""What of a scenario counts where an app selects, serves and learns: cell, devices and the rules of a round.

The app's learning, as the stage of a run knows it, saves nothing, and knows how large the work is only later.
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

# The keys without an effect, by table: all but these, or just these.
COUNT = {"learning": {"local_iterations", "local_steps", "batch_size"}, "selection": {"cohort"}, "server": set(),
         "end": {"time"}}
DO_NOT = {"rounds": {"first", "first_infeasible"}}
INSTEAD = {
    "learning": "what is learned, and how large it is, is the app's to say",
    "selection": "the app says who takes part",
    "server": "the app's ServerApp is the server",
    "end": "the app says how many rounds there are",
    "rounds": "the app says who takes part in the first round",
}


def refuse_without_effect(changes: Sequence[str]) -> None:
    """Raise InputError for a change (KEY=VALUE) of a key that has no effect here."""
    for change in changes:
        table, _, key = change.partition("=")[0].strip().partition(".")
        key = key.partition(".")[0]
        if (table in COUNT and key not in COUNT[table]) or key in DO_NOT.get(table, ()):
            raise InputError("no-effect", f"--set {change}", hint=f"With a Flower app {INSTEAD[table]}; --run-config "
                             "changes the app's own configuration")


def as_the_app_sees_it(scenario: Scenario) -> Scenario:
    """The scenario without what the app decides: the first round, the server, and when enough is learned."""
    return scenario.model_copy(update={
        "rounds": scenario.rounds.model_copy(update={"first": "cohort"}), "server": None,
        "learning": scenario.learning.model_copy(update={"target_accuracy": None})})


class AppLearning(NoLearning):
    """Another framework learns: its replies say how many bits and samples a job has."""

    trains = True

    def __init__(self, scenario: Scenario, seed: int) -> None:
        drawn = draw_samples(scenario, seed)
        super().__init__(scenario.size, np.ones(scenario.size, np.int64) if drawn is None else drawn)

    def sizes(self, scenario: Scenario, population: Population) -> JobSizes:
        """The least that a job can be, until a reply says more: one sample, and one bit in each direction."""
        one = np.ones(len(population))
        return JobSizes(one, one, cycles_of(scenario, population, np.arange(len(population)), one))


def cycles_of(scenario: Scenario, population: Population, devices: Ints, samples: Floats | Ints) -> Floats:
    """CPU cycles that training on so many samples takes."""
    trained = samples_trained(scenario, np.maximum(1, samples).astype(np.int64))
    return trained * population.cycles_per_sample[devices]
