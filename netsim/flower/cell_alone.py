"""What of a scenario counts where an app selects, serves and learns: cell, devices and the rules of a round."""

from __future__ import annotations

from collections.abc import Sequence

from netsim.base.errors import InputError
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
